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

void add_recipe_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::Recipe& recipe = flags.request.recipe;
  const auto count = [&](const char* name, int64_t& value, const char* help,
                         int64_t max = int64_t{1} << 24) {
    command->add_option(name, value, help)
        ->check(CLI::Range(int64_t{1}, max))
        ->capture_default_str();
  };
  command
      ->add_option(
          "--which", flags.which,
          "parts to train, one phase after the other: adapters on u (the factor applied "
          "first, v_proj in the files), on v (u_proj in the files), on both at once; or the "
          "factors themselves, or all matrices of the decoder layers")
      ->check(check_which, "", "u,v|both|factors|all")
      ->capture_default_str();
  count("--rank", recipe.rank, "rank of the adapters", 4096);
  command
      ->add_option("--alpha", recipe.alpha,
                   "scale of the adapters, which are multiplied by alpha / rank")
      ->check(check_positive, "", "positive")
      ->capture_default_str();
  command->add_option("--lr", recipe.learning_rate, "the largest learning rate")
      ->check(check_positive, "", "positive")
      ->capture_default_str();
  count("--epochs", recipe.epochs, "passes over the data in every phase");
  command
      ->add_option("--steps", recipe.steps,
                   "end every phase after this number of optimizer steps, when the learning rate "
                   "reaches 0; 0: as many as the epochs have")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  count("--batch", recipe.batch, "sequences of an optimizer step");
  count("--micro-batch", recipe.micro_batch,
        "sequences computed together; more are faster and take more memory");
  count("--cutoff", recipe.cutoff, "largest number of tokens of a sequence");
  command
      ->add_option("--warmup", recipe.warmup,
                   "steps until the learning rate is at its largest; at most a tenth of all steps")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))
      ->capture_default_str();
  command
      ->add_option("--seed", recipe.seed,
                   "seed of the adapters, of the order of the data and of what the teacher writes")
      ->check(whole_number())
      ->capture_default_str();
}

void add_validation_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::Recipe& recipe = flags.request.recipe;
  CLI::Option* const validation = command->add_option(
      "--validation", flags.request.validation,
      "held-out data in a format of --data. Its loss is measured every "
      "--validate-every steps, and every phase ends with the state that was the "
      "best on it");
  command->add_option("--validate-every", recipe.validate_every, "steps between two measurements")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  command
      ->add_option("--patience", recipe.patience,
                   "end a phase after this number of measurements without a new best; 0: never")
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
              "passes that first train each decoder layer by itself to do what the teacher's "
              "layer does; 0: none")
          ->check(CLI::Range(int64_t{0}, int64_t{1024}))
          ->capture_default_str()
          ->needs(teacher);
  command
      ->add_option(
          "--refine-tokens", recipe.block_tokens,
          "largest number of training tokens that --refine-blocks takes; both models' hidden "
          "states of them are in memory, 8 bytes per token and hidden feature")
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
                   "1, in addition to --data or instead of it")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 32))
      ->capture_default_str()
      ->needs(teacher);
}

}  // namespace

void add_finetune_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::FinetuneRequest& request = flags.request;
  command->add_option("MODEL_DIR", request.model, "a folder that compress wrote")->required();
  add_output_option(command, request.out, "the new model folder")->required();
  command->add_option(
      "--data", request.data,
      "training data: NAME.json or NAME.jsonl has records with instruction and output, "
      "with messages, or with text; any other file is a text. The loss is on the "
      "responses, or on all of a text");
  add_teacher_flags(command, flags);
  add_validation_flags(command, flags);
  add_recipe_flags(command, flags);
  command->add_option("--device", request.device, "device on which torch computes")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      ->add_option(
          "--products", flags.products,
          "format of products with weights: fp32, or bf16, which rounds what is multiplied; "
          "auto: bf16 where the CPU has instructions for it. Trained weights, their moments "
          "and sums are fp32")
      ->check(CLI::IsMember({"auto", "bf16", "fp32"}))
      ->capture_default_str();
  add_bits_flags(
      command, flags.bits,
      "train for weights of 8, 6 or 4 bits, which compute with activations of int8, and write "
      "such weights; without it the folder's format is kept");
  command->add_option("--threads", flags.threads, "threads to compute with; 0: all cores")
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
