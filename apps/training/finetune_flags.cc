#include "training/finetune_flags.h"

#include <fmt/core.h>

#include "flags.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

std::string check_which(const std::string& text) {
  const auto parts = finetune::parse_parts(text);
  return parts.ok() ? std::string() : parts.error().message;
}

// Refuses everything but positive numbers. CLI::Range would accept NaN.
std::string check_positive(const std::string& text) {
  double value = 0.0;
  if (CLI::detail::lexical_cast(text, value) && value > 0.0 && value < 1e30) return {};
  return fmt::format("expected a positive number, found \"{}\"", text);
}

// Adds options that take a whole number of at least `least`.
CLI::Option* add_count(CLI::App* command, const char* name, int64_t& value, const char* help,
                       int64_t least = 1, int64_t most = int64_t{1} << 24) {
  return command->add_option(name, value, help)
      ->check(CLI::Range(least, most))
      ->capture_default_str();
}

void add_recipe_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::Recipe& recipe = flags.request.recipe;
  command->add_option("--which", flags.which, "Train u, v, both, factors or all, in turn")
      ->check(check_which, "", "u,v|both|factors|all")
      ->type_name("PART,...")
      ->capture_default_str()
      ->group(kQuality);
  command->add_option("--lr", recipe.learning_rate, "Largest learning rate")
      ->check(check_positive, "", "positive")
      ->capture_default_str()
      ->group(kQuality);
  add_count(command, "--epochs", recipe.epochs, "Pass N times over the data in every phase")
      ->group(kQuality);
  add_count(command, "--steps", recipe.steps, "End a phase after N steps; 0 uses --epochs", 0,
            int64_t{1} << 40)
      ->group(kQuality);
  add_count(command, "--batch", recipe.batch, "Use N sequences in a step")->group(kQuality);
  add_count(command, "--rank", recipe.rank, "Rank of the adapters", 1, 4096)->group(kAdvanced);
  command->add_option("--alpha", recipe.alpha, "Multiply the adapters by X / rank")
      ->check(check_positive, "", "positive")
      ->capture_default_str()
      ->group(kAdvanced);
  add_count(command, "--cutoff", recipe.cutoff, "Cut sequences after N tokens")->group(kAdvanced);
  add_count(command, "--warmup", recipe.warmup, "Raise the learning rate for N steps", 0)
      ->group(kAdvanced);
  command->add_option("--seed", recipe.seed, "Seed of adapters, data order and texts")
      ->check(whole_number())
      ->type_name("N")
      ->capture_default_str()
      ->group(kAdvanced);
}

void add_validation_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::Recipe& recipe = flags.request.recipe;
  CLI::Option* const validation =
      command
          ->add_option("--validation", flags.request.validation,
                       "Keep the state with the least loss on this held-out data")
          ->type_name("FILE")
          ->group(kInput);
  add_count(command, "--validate-every", recipe.validate_every, "Measure that loss every N steps")
      ->group(kAdvanced);
  add_count(command, "--patience", recipe.patience, "Stop after N losses with no gain; 0 never", 0)
      ->needs(validation)
      ->group(kAdvanced);
}

void add_teacher_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::Recipe& recipe = flags.request.recipe;
  CLI::Option* const teacher =
      command
          ->add_option("--teacher", flags.request.teacher,
                       "Learn the predictions of the model before compression")
          ->type_name("DIR")
          ->group(kInput);
  add_count(command, "--self-generated", recipe.self_generated,
            "Let the teacher write N tokens to train on", 0, int64_t{1} << 32)
      ->needs(teacher)
      ->group(kInput);
  CLI::Option* const blocks = add_count(command, "--refine-blocks", recipe.block_epochs,
                                        "Train layers one by one first, in N passes", 0, 1024)
                                  ->needs(teacher)
                                  ->group(kAdvanced);
  add_count(command, "--refine-tokens", recipe.block_tokens,
            "Use at most N tokens for --refine-blocks", 1, int64_t{1} << 32)
      ->needs(blocks)
      ->group(kRare);
  command
      ->add_option("--refine-lr", recipe.block_learning_rate,
                   "Largest learning rate of --refine-blocks")
      ->check(check_positive, "", "positive")
      ->capture_default_str()
      ->needs(blocks)
      ->group(kRare);
}

void add_speed_flags(CLI::App* command, FinetuneFlags& flags) {
  command->add_option("--device", flags.request.device, "Train on cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("NAME")
      ->capture_default_str()
      ->group(kSpeed);
  add_threads_option(command, flags.threads);
  add_count(command, "--micro-batch", flags.request.recipe.micro_batch,
            "Compute N sequences together; takes memory")
      ->group(kSpeed);
  command->add_option("--products", flags.products, "Multiply weights in fp32, bf16 or auto")
      ->check(CLI::IsMember({"auto", "bf16", "fp32"}))
      ->type_name("TYPE")
      ->capture_default_str()
      ->group(kSpeed);
}

void add_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::FinetuneRequest& request = flags.request;
  command->add_option("MODEL_DIR", request.model, "Folder that compress wrote")
      ->required()
      ->group(kInput);
  command
      ->add_option("--data", request.data, "Train on .json or .jsonl records, or on another text")
      ->type_name("FILE")
      ->group(kInput);
  add_teacher_flags(command, flags);
  add_validation_flags(command, flags);
  add_output_option(command, request.out, "Write the trained model to this new folder")->required();
  add_force_option(command, request.force);
  command->add_flag("--resume", request.resume, "Go on with an interrupted run")->group(kOutput);
  add_json_option(command, flags.json);
  add_recipe_flags(command, flags);
  add_bits_flags(command, flags.bits, "Train for weights of 8, 6 or 4 bits, and write them");
  add_speed_flags(command, flags);
  command->parse_complete_callback([&flags] {
    if (flags.request.data.empty() && flags.request.recipe.self_generated == 0) {
      throw CLI::ValidationError("--data", "is needed, or --self-generated with --teacher");
    }
    weight_formats(flags.bits);
  });
}

}  // namespace

CLI::App* add_finetune_command(Program& program, FinetuneFlags& flags) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "finetune",
                  "Train the factors of a compressed model to recover its quality",
                  {"neuronmm finetune small --data alpaca.json -o recovered",
                   "neuronmm finetune small --data text.txt --teacher MODEL_DIR -o recovered"});
  add_flags(command, flags);
  program.set_usage(command, "MODEL_DIR -o DIR (--data FILE | --self-generated N --teacher DIR)");
  return command;
}

}  // namespace neuronmm::apps
