// The command neuronmm finetune, which trains a model folder on its teacher's predictions or on a
// text.

#include "finetune/finetune.h"

#include <cmath>
#include <memory>
#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "commands.h"
#include "cpu/backend.h"
#include "flags.h"
#include "model/bits_flags.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct FinetuneFlags {
  finetune::FinetuneRequest request;
  std::string json;
  BitsFlags bits;
  int threads = 0;  // 0: all that can compute at once
};

// Refuses everything but positive numbers. CLI::Range would accept NaN.
std::string check_rate(const std::string& text) {
  double value = 0.0;
  if (CLI::detail::lexical_cast(text, value) && value > 0.0 && value < 1.0) return {};
  return fmt::format("expected a positive number below 1, found \"{}\"", text);
}

CLI::Option* add_count(CLI::App* command, const char* name, int64_t& value, const char* help,
                       int64_t least = 1, int64_t most = int64_t{1} << 24) {
  return command->add_option(name, value, help)
      ->check(CLI::Range(least, most))
      ->capture_default_str();
}

void add_texts(CLI::App* command, finetune::FinetuneRequest& request) {
  command
      ->add_option("--data", request.data, "Train on .json or .jsonl records, or on another text")
      ->type_name("FILE")
      ->group(kInput);
  CLI::Option* const teacher =
      command
          ->add_option("--teacher", request.teacher,
                       "Learn the predictions of the model before compression")
          ->type_name("DIR")
          ->group(kInput);
  add_count(command, "--self-generated", request.recipe.self_generated,
            "Let the teacher write N tokens to train on", 0, int64_t{1} << 32)
      ->needs(teacher)
      ->group(kInput);
  command
      ->add_option("--validation", request.validation,
                   "Choose by this text; by default by a part of the data")
      ->type_name("FILE")
      ->group(kInput);
}

void add_recipe(CLI::App* command, finetune::Recipe& recipe) {
  add_count(command, "--tokens", recipe.tokens, "Train on N tokens; 0 is one pass over the data", 0,
            int64_t{1} << 40)
      ->group(kQuality);
  command
      ->add_option("--learning-rate", recipe.learning_rate,
                   "Largest learning rate; by default a trial finds it")
      ->check(check_rate, "", "positive")
      ->type_name("X")
      ->group(kQuality);
  add_count(command, "--lora", recipe.lora_rank, "Train and write LoRA adapters of rank N", 1, 4096)
      ->default_str("")
      ->group(kQuality);
  add_count(command, "--batch", recipe.batch, "Use N sequences in a step")->group(kAdvanced);
  add_count(command, "--cutoff", recipe.cutoff, "Cut sequences after N tokens")->group(kAdvanced);
  command->add_option("--seed", recipe.seed, "Seed of adapters, data order and texts")
      ->check(whole_number())
      ->type_name("N")
      ->capture_default_str()
      ->group(kAdvanced);
}

void add_flags(CLI::App* command, FinetuneFlags& flags) {
  finetune::FinetuneRequest& request = flags.request;
  command->add_option("MODEL_DIR", request.model, "Folder that compress wrote, or any model")
      ->required()
      ->group(kInput);
  add_texts(command, request);
  add_output_option(command, request.out, "Write the trained model to this new folder")->required();
  add_force_option(command, request.force);
  command->add_flag("--resume", request.resume, "Go on with an interrupted run")->group(kOutput);
  add_json_option(command, flags.json);
  add_recipe(command, request.recipe);
  add_bits_flags(command, flags.bits, "Train for weights of 8, 6 or 4 bits, and write them")
      ->excludes(command->get_option("--lora"));
  add_threads_option(command, flags.threads);
  command->parse_complete_callback([&flags] {
    if (flags.request.data.empty() && flags.request.recipe.self_generated == 0) {
      throw CLI::ValidationError("--data", "is needed, or --self-generated with --teacher");
    }
    weight_formats(flags.bits);
  });
}

Json to_json(const FinetuneFlags& flags, const finetune::FinetuneSummary& summary) {
  const finetune::Position& position = summary.position;
  const int64_t lora = flags.request.recipe.lora_rank;
  Json trials = Json::array(), measurements = Json::array();
  for (const finetune::RateTrial& trial : position.trials) {
    const bool finite = std::isfinite(trial.loss);
    trials.push_back({{"learning_rate", trial.learning_rate},
                      {"held_out_loss", finite ? Json(trial.loss) : Json()}});
  }
  for (const finetune::Measurement& one : position.measurements) {
    measurements.push_back({{"step", one.step},
                            {"held_out_loss", one.held_out},
                            {"training_loss", one.step > 0 ? Json(one.training) : Json()}});
  }
  return {{"model", flags.request.model.string()},
          {"output", flags.request.out.string()},
          {"data", text_or_null(flags.request.data.string())},
          {"teacher", text_or_null(flags.request.teacher.string())},
          {"validation", text_or_null(flags.request.validation.string())},
          {"lora_rank", lora > 0 ? Json(lora) : Json()},
          {"sequences", summary.examples},
          {"scored_tokens", summary.scored_tokens},
          {"generated_tokens", summary.generated_tokens},
          {"held_out_tokens", summary.held_out_tokens},
          {"trained_parameters", summary.trained_parameters},
          {"learning_rate", position.learning_rate},
          {"trials", trials},
          {"steps", position.step},
          {"planned_steps", summary.planned_steps},
          {"skipped_steps", position.skipped},
          {"best_step", finetune::best_of(position.measurements).step},
          {"measurements", measurements}};
}

void print_summary(const ReportWriter& report, const FinetuneFlags& flags,
                   const finetune::FinetuneSummary& summary) {
  const finetune::Position& position = summary.position;
  const char* const loss = flags.request.teacher.empty() ? "loss" : "divergence";
  report.print("{} sequences, {} tokens with a loss in each pass\n", summary.examples,
               summary.scored_tokens);
  if (summary.generated_tokens > 0) {
    report.print("{} tokens of them written by {}\n", summary.generated_tokens,
                 flags.request.teacher.string());
  }
  report.print("learning rate {:.2g}, {} steps of {}, {} skipped\n", position.learning_rate,
               position.step, summary.planned_steps, position.skipped);
  report.print("{:>6}  {:<20}  {}\n", "step", fmt::format("held-out {}", loss), "while training");
  for (const finetune::Measurement& one : position.measurements) {
    report.print("{:>6}  {:<20.4f}  {}\n", one.step, one.held_out,
                 one.step > 0 ? fmt::format("{:.4f}", one.training) : "");
  }
  const finetune::Measurement& best = finetune::best_of(position.measurements);
  report.print("held-out {}: {:.4f} before, {:.4f} after step {}, which is kept\n", loss,
               position.measurements.front().held_out, best.held_out, best.step);
}

Result<int> run(FinetuneFlags& flags) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  if (flags.threads > 0) set_num_threads(flags.threads);
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

}  // namespace

void add_finetune(Program& program) {
  const auto flags = std::make_shared<FinetuneFlags>();
  CLI::App* command =
      program.add(CommandGroup::kModels, "finetune",
                  "Train a compressed model to recover its quality, or an adapter",
                  {"neuronmm finetune small --data text.txt --teacher MODEL_DIR -o recovered",
                   "neuronmm finetune MODEL_DIR --data alpaca.json --lora 8 -o adapter"});
  add_flags(command, *flags);
  program.set_usage(command, "MODEL_DIR -o DIR (--data FILE | --self-generated N --teacher DIR)");
  program.set_run(command, [flags] { return run(*flags); });
}

}  // namespace neuronmm::apps
