// neuronmm-finetune: what `neuronmm finetune` becomes. The only program that loads libtorch.

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "commands.h"
#include "model/finetune_flags.h"
#include "model/metric_command.h"
#include "process.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const FinetuneFlags& flags, const finetune::FinetuneSummary& summary) {
  Json phases = Json::array();
  for (const finetune::PhaseSummary& phase : summary.phases) {
    phases.push_back({{"trained", finetune::part_name(phase.part)},
                      {"steps", phase.steps},
                      {"epoch_losses", phase.epoch_losses}});
  }
  return {{"model", flags.request.model.string()},
          {"output", flags.request.out.string()},
          {"data", flags.request.data.string()},
          {"teacher", flags.request.teacher.string()},
          {"sequences", summary.examples},
          {"scored_tokens", summary.scored_tokens},
          {"phases", phases}};
}

Result<int> run(FinetuneFlags& flags) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  if (flags.threads > 0) set_num_threads(flags.threads);
  NMM_ASSIGN(flags.request.recipe.phases, finetune::parse_parts(flags.which));
  Progress progress(stderr);
  auto trained = finetune::finetune(flags.request, progress);
  if (!trained.ok() && trained.error().kind == Error::Kind::kInterrupted) {
    return Error{trained.error().message + " by the same command with --resume",
                 Error::Kind::kInterrupted};
  }
  NMM_ASSIGN(const auto summary, std::move(trained));
  report.print("{} sequences, {} tokens with a loss in each epoch\n", summary.examples,
               summary.scored_tokens);
  report.print("{:<8} {:>6} {:>6}  {}\n", "trained", "steps", "epoch",
               flags.request.teacher.empty() ? "mean loss while training"
                                             : "mean divergence from the teacher while training");
  for (const finetune::PhaseSummary& phase : summary.phases) {
    for (size_t epoch = 0; epoch < phase.epoch_losses.size(); ++epoch) {
      report.print("{:<8} {:>6} {:>6}  {:.4f}\n", finetune::part_name(phase.part), phase.steps,
                   epoch + 1, phase.epoch_losses[epoch]);
    }
  }
  report.print("written to {}\n", flags.request.out.string());
  NMM_TRY(report.write_json(to_json(flags, summary)));
  return 0;
}

void add_trainer(Program& program) {
  CLI::App* command = program.add(CommandGroup::kModels, "finetune", kFinetuneDescription);
  const auto flags = std::make_shared<FinetuneFlags>();
  add_finetune_flags(command, *flags);
  program.set_run(command, [flags] { return run(*flags); });
}

}  // namespace
}  // namespace neuronmm::apps

int main(int argc, char** argv) {
  return neuronmm::apps::run_guarded([&] {
    neuronmm::apps::Program program;
    neuronmm::apps::add_trainer(program);
    neuronmm::apps::add_metric(program);
    return program.run(argc, argv);
  });
}
