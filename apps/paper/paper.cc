// neuronmm paper: what the simulator says of the paper's figures, and of every published
// measurement that we know.

#include <map>

#include <fmt/core.h>

#include "commands.h"
#include "paper/paper_figures.h"
#include "paper/paper_models.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

struct PaperFlags {
  std::string figure, svg, json;
  Choice choice;
};

// By the name that the user gives. Figures of published kernels have fixed shapes; the others can
// be had for one model alone.
const std::map<std::string, Result<Figure> (*)()> kKernelFigures = {
    {"blocks", blocks_figure},
    {"kernels", kernels_figure},
    {"traffic", traffic_figure},
    {"validation", validation_figure}};
const std::map<std::string, Result<Figure> (*)(const Choice&)> kModelFigures = {
    {"end-to-end", end_to_end_figure},
    {"forms", forms_figure},
    {"fused-mlp", fused_mlp_figure},
    {"tuning", tuning_figure}};

Result<Figure> make_figure(const PaperFlags& flags) {
  if (const auto found = kModelFigures.find(flags.figure); found != kModelFigures.end()) {
    return found->second(flags.choice);
  }
  if (!flags.choice.models.empty() || !flags.choice.rows.empty()) {
    return fail("--model, --rows: {} is of published kernels, not of models", flags.figure);
  }
  return kKernelFigures.at(flags.figure)();
}

// Files are opened before anything is simulated: a path that cannot be written is found at once.
Result<int> run_paper(const PaperFlags& flags) {
  NMM_ASSIGN(OutputFile svg, OutputFile::open(flags.svg));
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  NMM_ASSIGN(const Figure figure, make_figure(flags));
  if (svg.wanted()) NMM_TRY(svg.write(to_svg(figure.charts)));
  NMM_TRY(report.write_json_text(figure.json));
  report.print("{}", figure.text);
  return 0;
}

}  // namespace

void add_paper(Program& program) {
  auto flags = std::make_shared<PaperFlags>();
  CLI::App* command = program.add(CommandGroup::kPaper, "paper",
                                  "The paper's Trainium figures: published beside simulated");
  command
      ->add_option(
          "FIGURE", flags->figure,
          "kernels (latency), traffic (HBM), blocks (the BM sweep), validation (all), "
          "tuning (tuned tilings beside the paper's), fused-mlp (beside its kernels one by "
          "one), end-to-end (whole models), forms (whole models, MLPs of every form)")
      ->required()
      ->check(CLI::IsMember({"kernels", "traffic", "blocks", "validation", "tuning", "fused-mlp",
                             "end-to-end", "forms"}));
  command
      ->add_option("--model", flags->choice.models,
                   "tuning, fused-mlp, end-to-end, forms: only this one; may be repeated; forms "
                   "without it: Llama-3.2-1B")
      ->check(CLI::IsMember(paper_model_names()))
      ->allow_extra_args(false);
  command
      ->add_option("--rows", flags->choice.rows,
                   "tuning, fused-mlp: only at this number of rows M; may be repeated")
      ->check(CLI::Range(1, 1 << 16))
      ->allow_extra_args(false);
  command->add_option("--device", flags->choice.devices, "forms: only on this one; may be repeated")
      ->check(CLI::IsMember(flags->choice.devices))
      ->allow_extra_args(false);
  command
      ->add_option("--keep", flags->choice.keep,
                   "forms: the share of the MLPs' parameters that each form may keep")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command->add_option("--svg", flags->svg, "also draw it to this file");
  add_json_option(command, flags->json, "the numbers");
  program.set_run(command, [flags] { return run_paper(*flags); });
}

}  // namespace neuronmm::apps
