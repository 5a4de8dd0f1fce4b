#include "model/finetune_flags.h"

#include <fmt/core.h>

#include "flags.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

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

void add_recipe_flags(CLI::App* command, FinetuneFlags& flags) {
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
  command
      ->add_option("--steps", recipe.steps,
                   "optimizer steps of every phase at most, after which the learning rate is 0; "
                   "0: as many as the epochs have")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  count("--batch", recipe.batch, "sequences of a step");
  count("--micro-batch", recipe.micro_batch, "sequences computed together: memory against speed");
  count("--cutoff", recipe.cutoff, "tokens of a sequence at most");
  command
      ->add_option("--warmup", recipe.warmup,
                   "steps until the largest learning rate; at most a tenth of all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))
      ->capture_default_str();
  command->add_option("--seed", recipe.seed, "of the adapters and the order of the data")
      ->check(whole_number())
      ->capture_default_str();
}

}  // namespace

void add_finetune_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::FinetuneRequest& request = flags.request;
  command->add_option("MODEL_DIR", request.model, "a folder that compress wrote")->required();
  add_output_option(command, request.out, "the new model folder")->required();
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
  command->add_flag("--resume", request.resume, "go on with an interrupted run");
  command->add_flag("--force", request.force,
                    "replace an existing output folder, forget an interrupted run");
  add_json_option(command, flags.json);
}

}  // namespace neuronmm::apps
