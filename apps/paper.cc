// neuronmm paper: what the simulator says of the paper's figures, and of every published
// measurement that we know.

#include <map>

#include <fmt/core.h>

#include "commands.h"
#include "io/folder_writer.h"
#include "paper_figures.h"

namespace neuronmm::apps {
namespace {

struct PaperFlags {
  std::string figure, svg, json;
};

const std::map<std::string, Result<Figure> (*)()> kFigures = {{"blocks", blocks_figure},
                                                              {"kernels", kernels_figure},
                                                              {"traffic", traffic_figure},
                                                              {"validation", validation_figure}};

Result<int> run_paper(const PaperFlags& flags) {
  NMM_ASSIGN(const Figure figure, kFigures.at(flags.figure)());
  if (!flags.svg.empty()) NMM_TRY(io::write_text_file(flags.svg, to_svg(figure.charts)));
  if (!flags.json.empty()) NMM_TRY(io::write_text_file(flags.json, figure.json));
  fmt::print("{}", figure.text);
  return 0;
}

}  // namespace

void add_paper(Program& program) {
  auto flags = std::make_shared<PaperFlags>();
  CLI::App* command =
      program.add("paper", "The paper's Trainium figures: published beside simulated");
  command
      ->add_option("figure", flags->figure,
                   "kernels (latency), traffic (HBM), blocks (the BM sweep), validation (all)")
      ->required()
      ->check(CLI::IsMember({"kernels", "traffic", "blocks", "validation"}));
  command->add_option("--svg", flags->svg, "also draw it to this file");
  command->add_option("--json", flags->json, "also write the numbers to this file");
  program.set_run(command, [flags] { return run_paper(*flags); });
}

}  // namespace neuronmm::apps
