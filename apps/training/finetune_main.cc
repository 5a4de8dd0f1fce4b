// The program neuronmm-finetune, which `neuronmm finetune` starts. No other program loads libtorch.

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "commands.h"
#include "cpu/backend.h"
#include "gguf/mounted_gguf.h"
#include "io/mounted_model.h"
#include "process.h"
#include "report_writer.h"
#include "training/finetune_flags.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const finetune::PhaseSummary& phase) {
  Json json = {{"trained", finetune::part_name(phase.part)},
               {"steps", phase.steps},
               {"epoch_losses", phase.epoch_losses}};
  for (const finetune::Validation& validation : phase.validations) {
    json["validations"].push_back({{"step", validation.step}, {"loss", validation.loss}});
  }
  for (const finetune::BlockError& block : phase.blocks) {
    json["layers"].push_back({{"error_before", block.before}, {"error_after", block.after}});
  }
  return json;
}

Json to_json(const FinetuneFlags& flags, const finetune::FinetuneSummary& summary) {
  Json phases = Json::array();
  for (const finetune::PhaseSummary& phase : summary.phases) phases.push_back(to_json(phase));
  return {{"model", flags.request.model.string()},
          {"output", flags.request.out.string()},
          {"data", text_or_null(flags.request.data.string())},
          {"teacher", text_or_null(flags.request.teacher.string())},
          {"validation", text_or_null(flags.request.validation.string())},
          {"sequences", summary.examples},
          {"scored_tokens", summary.scored_tokens},
          {"generated_tokens", summary.generated_tokens},
          {"validation_tokens", summary.validation_tokens},
          {"phases", phases}};
}

// Prints the validation loss before training, the best loss with its step, and the number of steps.
void print_validations(const ReportWriter& report, const finetune::PhaseSummary& phase) {
  const auto best = std::ranges::min_element(phase.validations, {}, &finetune::Validation::loss);
  if (best == phase.validations.end()) return;
  report.print("{:<8} validation: {:.4f} before, {:.4f} after step {}, which is kept, of {}\n", "",
               phase.validations.front().loss, best->loss, best->step, phase.steps);
}

void print_blocks(const ReportWriter& report, const finetune::PhaseSummary& phase) {
  double before = 0.0, after = 0.0;
  for (const finetune::BlockError& block : phase.blocks) {
    before += block.before;
    after += block.after;
  }
  const auto layers = static_cast<double>(phase.blocks.size());
  report.print("{:<8} {:>6} layers  relative error {:.3e}, was {:.3e} (means)\n",
               finetune::part_name(phase.part), phase.blocks.size(), after / layers,
               before / layers);
}

void print_summary(const ReportWriter& report, const FinetuneFlags& flags,
                   const finetune::FinetuneSummary& summary) {
  report.print("{} sequences, {} tokens with a loss in each epoch\n", summary.examples,
               summary.scored_tokens);
  if (summary.generated_tokens > 0) {
    report.print("{} tokens of them written by {}\n", summary.generated_tokens,
                 flags.request.teacher.string());
  }
  report.print("{:<8} {:>6} {:>6}  {}\n", "trained", "steps", "epoch",
               flags.request.teacher.empty() ? "mean loss while training"
                                             : "mean divergence from the teacher while training");
  for (const finetune::PhaseSummary& phase : summary.phases) {
    if (!phase.blocks.empty()) print_blocks(report, phase);
    for (size_t epoch = 0; epoch < phase.epoch_losses.size(); ++epoch) {
      report.print("{:<8} {:>6} {:>6}  {:.4f}\n", finetune::part_name(phase.part), phase.steps,
                   epoch + 1, phase.epoch_losses[epoch]);
    }
    print_validations(report, phase);
  }
}

// Returns whether the CPU has instructions for bf16 products. Without them bf16 is slower than
// fp32.
bool cpu_multiplies_bf16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

DType products_of(const FinetuneFlags& flags) {
  const bool automatic = flags.request.device == "cpu" && cpu_multiplies_bf16();
  const bool bf16 = flags.products == "auto" ? automatic : flags.products == "bf16";
  return bf16 ? DType::kBF16 : DType::kF32;
}

Result<int> run(FinetuneFlags& flags) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  if (flags.threads > 0) set_num_threads(flags.threads);
  NMM_ASSIGN(flags.request.recipe.phases, finetune::parse_parts(flags.which));
  flags.request.compute = products_of(flags);
  flags.request.weights = weight_formats(flags.bits);
  Progress progress(stderr);
  const auto backend = cpu::make_backend();
  flags.request.backend = backend.get();
  NMM_ASSIGN(const auto summary,
             finetune::finetune(flags.request, progress, {},
                                [&](const finetune::FinetuneSummary& summary) {
                                  return report.write_json(to_json(flags, summary));
                                }));
  print_summary(report, flags, summary);
  report.print("written to {}\n", flags.request.out.string());
  return 0;
}

void add_trainer(Program& program) {
  const auto flags = std::make_shared<FinetuneFlags>();
  CLI::App* command = add_finetune_command(program, *flags);
  program.set_run(command, [flags] { return run(*flags); });
}

}  // namespace
}  // namespace neuronmm::apps

int main(int argc, char** argv) {
  return neuronmm::apps::run_guarded([&] {
    neuronmm::io::set_mount_opener(neuronmm::gguf::open_mounted);
    neuronmm::apps::Program program;
    neuronmm::apps::add_trainer(program);
    return program.run(argc, argv);
  });
}
