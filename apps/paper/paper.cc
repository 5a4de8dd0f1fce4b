// This file implements `neuronmm paper`. The command shows what the simulator computes for the
// paper's figures and for every published measurement that we know.

#include <map>
#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "paper/paper_figures.h"
#include "paper/paper_measured.h"
#include "paper/paper_models.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

struct PaperFlags {
  std::string figure, svg, json, measured;
  Choice choice;
};

// The figures by the name that the user gives. Figures of published kernels have fixed shapes. The
// other figures can be restricted to one model.
const std::map<std::string, Result<Figure> (*)()> kKernelFigures = {
    {"blocks", blocks_figure},
    {"kernels", kernels_figure},
    {"traffic", traffic_figure},
    {"validation", validation_figure}};
const std::map<std::string, Result<Figure> (*)(const Choice&)> kModelFigures = {
    {"end-to-end", end_to_end_figure},
    {"forms", forms_figure},
    {"fused-mlp", fused_mlp_figure},
    {"quality", quality_figure},
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

// Adds the rows of an owner of a Trainium after the published ones.
void add_measured(const MeasuredRows& rows, Figure& figure) {
  figure.text += "\n" + rows.text;
  auto json = nlohmann::ordered_json::parse(figure.json);
  for (auto& row : nlohmann::ordered_json::parse(rows.json)) json.push_back(std::move(row));
  figure.json = json.dump(2) + "\n";
}

// Returns whether the figure has charts. The others are tables alone.
bool has_charts(const PaperFlags& flags) {
  if (flags.figure == "tuning") return flags.choice.models.empty();
  return flags.figure != "forms" && flags.choice.cores.empty();
}

// Opens and reads files before the simulation, so that a path that cannot be written and a report
// that is malformed are reported at once.
Result<int> run_paper(const PaperFlags& flags) {
  if (!flags.svg.empty() && !has_charts(flags)) {
    return fail("--svg: this figure is a table alone, of which there is no chart");
  }
  NMM_ASSIGN(OutputFile svg, OutputFile::open(flags.svg));
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  std::optional<MeasuredRows> measured;
  if (!flags.measured.empty()) {
    NMM_ASSIGN(measured, measured_rows(flags.measured));
  }
  NMM_ASSIGN(Figure figure, make_figure(flags));
  if (measured) add_measured(*measured, figure);
  if (svg.wanted()) NMM_TRY(svg.write(to_svg(figure.charts)));
  NMM_TRY(report.write_json_text(figure.json));
  report.print("{}", figure.text);
  return 0;
}

void add_figure_flags(CLI::App* command, PaperFlags& flags) {
  command->add_option("FIGURE", flags.figure, "Figure to show, one of those below")
      ->required()
      ->check(CLI::IsMember({"kernels", "traffic", "blocks", "validation", "tuning", "fused-mlp",
                             "end-to-end", "forms", "quality"}))
      ->group(kInput);
  command->add_option("--model", flags.choice.models, "Show only this model; repeatable")
      ->check(CLI::IsMember(paper_model_names()))
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->group(kInput);
  command->add_option("--rows", flags.choice.rows, "Show only M = N rows (tuning, fused-mlp)")
      ->check(CLI::Range(1, 1 << 16))
      ->allow_extra_args(false)
      ->group(kInput);
  command->add_option("--measured", flags.measured, "Add times of check_report.json (validation)")
      ->type_name("FILE")
      ->group(kInput);
  add_json_option(command, flags.json, "the numbers");
  command->add_option("--svg", flags.svg, "Also draw the figure to this file")
      ->type_name("FILE")
      ->group(kOutput);
  command->add_option("--keep", flags.choice.kept_share, "Keep this share of the MLPs (forms)")
      ->check(real_range(0.01, 1.0))
      ->capture_default_str()
      ->group(kQuality);
  command
      ->add_option("--cores", flags.choice.cores, "Use N cores by tensor parallelism (end-to-end)")
      ->check(CLI::Range(2, 64))
      ->allow_extra_args(false)
      ->group(kSpeed);
  command
      ->add_option("--device", flags.choice.devices,
                   "Simulate only trn1, trn2 or trn3 (forms, end-to-end)")
      ->check(CLI::IsMember({"trn1", "trn2", "trn3"}))
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->group(kSpeed);
}

}  // namespace

void add_paper(Program& program) {
  auto flags = std::make_shared<PaperFlags>();
  CLI::App* command = program.add(
      CommandGroup::kPaper, "paper", "Show the paper's Trainium figures beside simulated ones",
      {"neuronmm paper kernels", "neuronmm paper traffic --svg traffic.svg"});
  add_figure_flags(command, *flags);
  command->footer(
      "Figures:\n"
      "  kernels     latency of kernels           traffic    bytes to and from HBM\n"
      "  blocks      the block size BM            validation all published numbers\n"
      "  tuning      tuned tilings, beside the paper's\n"
      "  fused-mlp   the fused MLP, beside its kernels one by one\n"
      "  end-to-end  whole models                 forms      whole models of every form\n"
      "  quality     accuracy, perplexity, gamma");
  command->parse_complete_callback([flags, command] {
    if (!flags->measured.empty() && flags->figure != "validation") {
      throw CLI::ValidationError("--measured", "goes with validation");
    }
    if (!flags->choice.cores.empty() && flags->figure != "end-to-end") {
      throw CLI::ValidationError("--cores", "goes with end-to-end");
    }
    if (command->count("--keep") > 0 && flags->figure != "forms") {
      throw CLI::ValidationError("--keep", "goes with forms");
    }
    if (!flags->choice.devices.empty() && flags->figure != "forms" && flags->choice.cores.empty()) {
      throw CLI::ValidationError("--device", "goes with forms and with end-to-end --cores");
    }
  });
  program.set_run(command, [flags] { return run_paper(*flags); });
}

}  // namespace neuronmm::apps
