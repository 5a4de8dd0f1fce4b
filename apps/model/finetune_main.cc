// neuronmm-finetune: what `neuronmm finetune` becomes. The only program that loads libtorch.

#include <fmt/core.h>

#include "base/parallel.h"
#include "commands.h"
#include "finetune/finetune.h"
#include "process.h"

namespace neuronmm::apps {
namespace {

struct Flags {
  finetune::FinetuneRequest request;
  std::string which = "v,u";
  int threads = 0;
};

std::string check_which(const std::string& text) {
  const auto parts = finetune::parse_parts(text);
  return parts.ok() ? std::string() : parts.error().message;
}

// CLI11's Range lets NaN through.
std::string check_positive(const std::string& text) {
  double value = 0.0;
  if (CLI::detail::lexical_cast(text, value) && value > 0.0 && value < 1e30) return {};
  return fmt::format("expected a positive number, found \"{}\"", text);
}

Result<int> run(Flags& flags) {
  if (flags.threads > 0) set_num_threads(flags.threads);
  NMM_ASSIGN(flags.request.recipe.phases, finetune::parse_parts(flags.which));
  Progress progress(stderr);
  NMM_ASSIGN(const auto summary, finetune::finetune(flags.request, progress));
  fmt::print("{} sequences, {} tokens with a loss in each epoch\n", summary.examples,
             summary.scored_tokens);
  fmt::print("{:<8} {:>6} {:>6}  {}\n", "trained", "steps", "epoch",
             flags.request.teacher.empty() ? "mean loss while training"
                                           : "mean divergence from the teacher while training");
  for (const finetune::PhaseSummary& phase : summary.phases) {
    for (size_t epoch = 0; epoch < phase.epoch_losses.size(); ++epoch) {
      fmt::print("{:<8} {:>6} {:>6}  {:.4f}\n", finetune::part_name(phase.part), phase.steps,
                 epoch + 1, phase.epoch_losses[epoch]);
    }
  }
  fmt::print("written to {}\n", flags.request.out.string());
  return 0;
}

void add_recipe_flags(CLI::App* command, Flags& flags) {
  finetune::Recipe& recipe = flags.request.recipe;
  const auto count = [&](const char* name, int64_t& value, const char* help,
                         int64_t most = int64_t{1} << 24) {
    command->add_option(name, value, help)
        ->check(CLI::Range(int64_t{1}, most))
        ->capture_default_str();
  };
  command
      ->add_option("--which", flags.which,
                   "what is trained, one phase after the other: adapters on u (the factor applied "
                   "first, v_proj in the files), on v (u_proj there), on both at once; or the "
                   "factors themselves")
      ->check(check_which, "", "u,v|both|factors")
      ->capture_default_str();
  count("--rank", recipe.rank, "of the adapters", 4096);
  command->add_option("--alpha", recipe.alpha, "adapters count alpha / rank times")
      ->check(check_positive, "", "positive")
      ->capture_default_str();
  command->add_option("--lr", recipe.learning_rate, "the largest learning rate")
      ->check(check_positive, "", "positive")
      ->capture_default_str();
  count("--epochs", recipe.epochs, "of every phase");
  count("--batch", recipe.batch, "sequences of a step");
  count("--micro-batch", recipe.micro_batch, "sequences computed together: memory against speed");
  count("--cutoff", recipe.cutoff, "tokens of a sequence at most");
  command
      ->add_option("--warmup", recipe.warmup,
                   "steps until the largest learning rate; at most a tenth of all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))
      ->capture_default_str();
  command->add_option("--seed", recipe.seed, "of the adapters and the order of the data")
      ->capture_default_str();
}

void add_flags(CLI::App* command, Flags& flags) {
  finetune::FinetuneRequest& request = flags.request;
  command->add_option("MODEL_DIR", request.model, "a folder that compress wrote")->required();
  command->add_option("-o,--out", request.out, "the new model folder")->required();
  command
      ->add_option("--data", request.data,
                   "alpaca.json (or .jsonl): instructions, the loss is on the responses; any other "
                   "file: text")
      ->required();
  command->add_option("--teacher", request.teacher,
                      "the model before compression: learn its distribution instead of the data's");
  add_recipe_flags(command, flags);
  command->add_option("--device", request.device, "where torch computes")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--threads", flags.threads, "threads; 0 = all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--resume", request.resume, "go on with an interrupted run that had another --lr");
  command->add_flag("--force", request.force,
                    "replace an existing output folder, forget an interrupted run");
}

void add_trainer(Program& program) {
  CLI::App* command = program.add(
      "finetune", "Train the factors of a compressed model to recover its quality (libtorch)");
  const auto flags = std::make_shared<Flags>();
  add_flags(command, *flags);
  program.set_run(command, [flags] { return run(*flags); });
}

}  // namespace
}  // namespace neuronmm::apps

int main(int argc, char** argv) {
  return neuronmm::apps::run_guarded([&] {
    neuronmm::apps::Program program;
    neuronmm::apps::add_trainer(program);
    return program.run(argc, argv);
  });
}
