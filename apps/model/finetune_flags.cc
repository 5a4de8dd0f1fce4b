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
                   "factors themselves, or all matrices of the decoder layers")
      ->check(check_which, "", "u,v|both|factors|all")
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
  command
      ->add_option("--seed", recipe.seed,
                   "of the adapters, the order of the data and what the teacher writes")
      ->check(whole_number())
      ->capture_default_str();
}

void add_validation_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::Recipe& recipe = flags.request.recipe;
  CLI::Option* const validation =
      command->add_option("--validation", flags.request.validation,
                          "held-out data, as --data: the loss on it is measured again and again, "
                          "and every phase ends with the state that was the best on it");
  command->add_option("--validate-every", recipe.validate_every, "steps between two measurements")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  command
      ->add_option("--patience", recipe.patience,
                   "measurements without a new best that end a phase; 0: none does")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))
      ->capture_default_str()
      ->needs(validation);
}

void add_teacher_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::Recipe& recipe = flags.request.recipe;
  CLI::Option* const teacher = command->add_option(
      "--teacher", flags.request.teacher,
      "the model before compression: learn its distribution instead of the data's");
  CLI::Option* const blocks =
      command
          ->add_option(
              "--refine-blocks", recipe.block_epochs,
              "first train each decoder layer by itself to do what the teacher's does, with so "
              "many passes; 0: no")
          ->check(CLI::Range(int64_t{0}, int64_t{1024}))
          ->capture_default_str()
          ->needs(teacher);
  command
      ->add_option("--refine-tokens", recipe.block_tokens,
                   "how much of the training text --refine-blocks takes at most; both models' "
                   "hidden states of it are in memory, 8 bytes per token and hidden feature")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32))
      ->capture_default_str()
      ->needs(blocks);
  command
      ->add_option("--refine-lr", recipe.block_learning_rate,
                   "the largest learning rate of --refine-blocks")
      ->check(check_positive, "", "positive")
      ->capture_default_str()
      ->needs(blocks);
  command
      ->add_option("--self-generated", recipe.self_generated,
                   "tokens of training text that the teacher writes itself, sampled at temperature "
                   "1, beside --data or instead of it")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 32))
      ->capture_default_str()
      ->needs(teacher);
}

}  // namespace

void add_finetune_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::FinetuneRequest& request = flags.request;
  command->add_option("MODEL_DIR", request.model, "a folder that compress wrote")->required();
  add_output_option(command, request.out, "the new model folder")->required();
  command->add_option("--data", request.data,
                      "NAME.json or NAME.jsonl: records with instruction and output, messages, or "
                      "text; the loss is "
                      "on the responses, for text on all. Any other file: text");
  add_teacher_flags(command, flags);
  add_validation_flags(command, flags);
  add_recipe_flags(command, flags);
  command->add_option("--device", request.device, "where torch computes")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      ->add_option("--products", flags.products,
                   "what products with weights compute with; trained weights, their moments and "
                   "sums are fp32. bf16 rounds what is multiplied; auto: bf16 where the CPU has "
                   "instructions for it")
      ->check(CLI::IsMember({"auto", "bf16", "fp32"}))
      ->capture_default_str();
  add_bits_flags(
      command, flags.bits,
      "train what weights of 8, 6 or 4 bits, and activations of int8, compute, and write "
      "such weights; without it those of the folder, which may have few bits already");
  command->add_option("--threads", flags.threads, "threads; 0 = all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--resume", request.resume, "go on with an interrupted run");
  command->add_flag("--force", request.force,
                    "replace an existing output folder, forget an interrupted run");
  add_json_option(command, flags.json);
  command->parse_complete_callback([&flags] {
    if (flags.request.data.empty() && flags.request.recipe.self_generated == 0) {
      throw CLI::ValidationError("--data", "is needed, or --self-generated with --teacher");
    }
    weight_formats(flags.bits);
  });
}

}  // namespace neuronmm::apps
