// The command neuronmm export: makes a folder that runs a compressed model on a Trainium, with a
// script that checks it there, a GGUF file (export_gguf.h) or a dense folder (export_padded.h).

#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "eval/latency_report.h"
#include "exports/export_folder.h"
#include "flags.h"
#include "io/checkpoint.h"
#include "io/folder_writer.h"
#include "io/model_folder.h"
#include "model/export_gguf.h"
#include "model/export_kernels.h"
#include "model/export_padded.h"
#include "model/prompts.h"
#include "model/tensor_specs.h"
#include "report_writer.h"
#include "version.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The number of positions whose logits are recorded for each prompt. Checking the accuracy on a
// device takes one prefill per position. Assumed.
constexpr int64_t kGoldenTokens = 16;

struct ExportFlags {
  fs::path model, out;
  std::string target, device, sdk, json;
  GgufFlags gguf;
  std::vector<std::string> prompts;
  int64_t prompt_tokens = 128, new_tokens = 64;
  int threads = 0;
};

exports::Prediction prediction_of(const eval::LatencyReport& report) {
  return {.prefill_ms = report.context_encoding.average,
          .decode_ms = report.token_generation.average,
          .request_ms = report.end_to_end.average};
}

// Makes a model of this shape whose weights are zeros. Its latency on a simulated device is the
// same as with any other weights.
Result<model::Transformer> model_of_zeros(const io::ModelConfig& config, const ExportFlags& flags,
                                          const ops::Backend& backend) {
  NMM_ASSIGN(auto zeros, io::Checkpoint::zeros(flags.model, model::tensor_specs(config)));
  return model::Transformer::load(config, std::move(zeros), backend);
}

Status predict_latencies(const ExportFlags& flags, exports::Manifest& manifest) {
  NMM_ASSIGN(const auto backend, make_latency_backend({.device = manifest.choice.device}));
  io::ModelConfig dense = manifest.config;
  dense.compression.reset();
  NMM_ASSIGN(const auto dense_model, model_of_zeros(dense, flags, *backend));
  NMM_ASSIGN(const auto factored_model, model_of_zeros(manifest.config, flags, *backend));
  const model::Transformer* const models[] = {&dense_model, &factored_model};
  const eval::LatencySettings settings = {
      .prompt_tokens = flags.prompt_tokens, .new_tokens = flags.new_tokens, .runs = 1};
  Progress progress(stderr);
  NMM_ASSIGN(const auto measured, eval::measure_latency(models, settings, progress));
  manifest.dense = prediction_of(eval::latency_report(measured.models[0], settings));
  manifest.factored = prediction_of(eval::latency_report(measured.models[1], settings));
  return {};
}

// Checks that each prompt and its continuation fit into the device's prefill.
Status check_lengths(const std::vector<PromptTokens>& prompts, const ExportFlags& flags) {
  for (const PromptTokens& prompt : prompts) {
    if (std::ssize(prompt) + kGoldenTokens > flags.prompt_tokens) {
      return fail("--prompt: expected at most {} tokens, {} less than --prompt-tokens, found {}",
                  flags.prompt_tokens - kGoldenTokens, kGoldenTokens, prompt.size());
    }
  }
  return {};
}

// Checks that the model has enough positions for the sequences that it is timed with on the target.
Status check_positions(const ExportFlags& flags, const exports::Manifest& manifest) {
  const int64_t length = exports::sequence_length(manifest);
  const int64_t max_length = manifest.config.max_position_embeddings;
  if (length <= max_length) return {};
  return fail(
      "--prompt-tokens, --new-tokens: {} of {} need a sequence of {} in {}, found "
      "\"max_position_embeddings\" {}",
      flags.prompt_tokens + flags.new_tokens, flags.model.string(), length, flags.target,
      max_length);
}

Result<eval::ReferenceLogits> golden_logits(const ExportFlags& flags,
                                            const io::ModelConfig& config) {
  NMM_ASSIGN(const auto prompts, prompt_tokens(flags.model, flags.prompts, config.vocab_size));
  NMM_TRY(check_lengths(prompts, flags));
  NMM_ASSIGN(const auto backend, make_backend({.threads = flags.threads}));
  // The export has the files as they are, so two tables that only rounding tells apart stay two.
  NMM_ASSIGN(auto checkpoint, io::Checkpoint::open(flags.model));
  NMM_TRY(io::check_agreement(config, checkpoint));
  NMM_ASSIGN(const auto transformer,
             model::Transformer::load(config, std::move(checkpoint), *backend));
  Progress progress(stderr);
  return eval::record_reference_logits(transformer, prompts, kGoldenTokens, progress);
}

void print_summary(const ReportWriter& report, const ExportFlags& flags,
                   const exports::Manifest& manifest) {
  for (const std::string& note : manifest.use.notes) report.print("{}\n", note);
  report.print(
      "simulated on {}: prefill {:.3f} -> {:.3f} ms, a token {:.3f} -> {:.3f} ms (dense -> "
      "factored)\nwritten to {}, for {} of the Neuron SDK {}; never run on a Trainium\n"
      "there: python check_on_trainium.py --dense {}\n",
      manifest.choice.device, manifest.dense.prefill_ms, manifest.factored.prefill_ms,
      manifest.dense.decode_ms, manifest.factored.decode_ms, flags.out.string(), flags.target,
      manifest.choice.release.sdk, "ORIGINAL");
}

// Errors of the folder and of the flags are found before latencies are simulated, which may take
// minutes.
Result<int> run_export(const ExportFlags& flags) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  exports::Manifest manifest{.target = *exports::find_target(flags.target),
                             .version = kVersion,
                             .source = fs::absolute(flags.model).lexically_normal().filename(),
                             .prompt_tokens = flags.prompt_tokens,
                             .new_tokens = flags.new_tokens};
  if (manifest.source.empty()) manifest.source = fs::absolute(flags.model).parent_path().filename();
  NMM_ASSIGN(manifest.choice, exports::choose_release(manifest.target, flags.device, flags.sdk));
  NMM_TRY(exports::check_output(flags.out));
  NMM_TRY(io::require_folder(flags.model));
  NMM_ASSIGN(manifest.config, io::ModelConfig::load(flags.model / "config.json"));
  NMM_TRY(exports::check_exportable(manifest.config, manifest.target, flags.model.string()));
  NMM_TRY(check_positions(flags, manifest));
  NMM_ASSIGN(const auto golden, golden_logits(flags, manifest.config));
  manifest.use = exports::kernel_use(manifest.config, manifest.target);
  NMM_ASSIGN(manifest.kernels,
             export_kernels(manifest.config, manifest.choice, flags.prompt_tokens, manifest.use));
  NMM_TRY(predict_latencies(flags, manifest));
  NMM_TRY(exports::write_export(flags.model, flags.out, manifest, golden, [&] {
    return report.write_json_text(exports::export_json(manifest));
  }));
  print_summary(report, flags, manifest);
  return 0;
}

void add_device_flags(CLI::App* command, ExportFlags& flags) {
  command->add_option("--device", flags.device, "Export for trn1 to trn3")
      ->type_name("NAME")
      ->default_str("trn2, nxdi trn1")
      ->group(kOutput);
  command->add_option("--sdk", flags.sdk, "Follow this release of the Neuron SDK, such as 2.33")
      ->type_name("RELEASE")
      ->group(kAdvanced);
  command->add_option("--prompt-tokens", flags.prompt_tokens, "Prepare a prefill of N tokens")
      ->check(CLI::Range(int64_t{32}, int64_t{1} << 20))
      ->capture_default_str()
      ->group(kSpeed);
  command->add_option("--new-tokens", flags.new_tokens, "Generate N tokens in a timed request")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 20))
      ->capture_default_str()
      ->group(kSpeed);
}

void add_export_flags(CLI::App* command, ExportFlags& flags) {
  command
      ->add_option("MODEL_DIR", flags.model,
                   "Folder, GGUF file or name; for a Trainium compressed, in bf16")
      ->required()
      ->group(kInput);
  command->add_option("--prompt", flags.prompts, "Record how TEXT goes on; repeatable")
      ->allow_extra_args(false)
      ->default_str("two short texts")
      ->group(kInput);
  std::vector<std::string> targets = exports::target_names();
  targets.emplace_back(kGgufTarget);
  targets.emplace_back(kPaddedTarget);
  command
      ->add_option("--target", flags.target,
                   "Export for gguf (llama.cpp, Ollama, LM Studio), padded (vLLM),\n"
                   "vllm-neuron (trn2, trn3) or nxdi (trn1, trn2)")
      ->check(CLI::IsMember(targets))
      ->type_name("NAME")
      ->required()
      ->group(kOutput);
  add_output_option(command, flags.out, "Make this folder, or this file with gguf")
      ->type_name("PATH")
      ->required();
  add_json_option(command, flags.json, "what was exported");
  add_gguf_flags(command, flags.gguf);
  add_device_flags(command, flags);
  add_threads_option(command, flags.threads);
}

// Refuses options that the target or the other options have no use for.
void check_target(const CLI::App& command, const std::string& target) {
  const bool gguf = target == kGgufTarget, padded = target == kPaddedTarget;
  std::vector<const char*> others;
  if (gguf || padded) others = {"--prompt", "--device", "--sdk", "--prompt-tokens", "--new-tokens"};
  if (!gguf)
    others.insert(others.end(),
                  {"--type", "--strict", "--calibration", "--calibration-tokens", "--statistics"});
  if (!gguf && !padded) others.emplace_back("--force");
  for (const char* const option : others) {
    if (command.count(option) > 0)
      throw CLI::ValidationError(option, fmt::format("has no meaning with --target {}", target));
  }
  if (command.count("--calibration-tokens") > 0 && command.count("--calibration") == 0) {
    throw CLI::ValidationError(
        "--calibration-tokens needs --calibration, the text that has the tokens");
  }
}

}  // namespace

void add_export(Program& program) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = program.add(
      CommandGroup::kModels, "export", "Make a GGUF file, or a folder for other programs",
      {"neuronmm export model --target gguf -o model.gguf --calibration text.txt",
       "neuronmm export small --target vllm-neuron -o there"});
  add_export_flags(command, *flags);
  command->footer(
      "A GGUF file holds the whole model with its tokenizer. A padded folder is dense\n"
      "and has layers of equal sizes, as vLLM needs it. A folder for a Trainium\n"
      "links the weights; its logits were computed on this CPU, its latencies are\n"
      "simulated, and it has a script that checks it there.\n"
      "--prompt, --prompt-tokens, --new-tokens, --device and --sdk are for a Trainium.\n"
      "--type, --strict, --calibration and --statistics are for gguf.");
  command->parse_complete_callback([command, flags] { check_target(*command, flags->target); });
  program.set_run(command, [flags]() -> Result<int> {
    if (flags->target == kPaddedTarget) {
      return run_export_padded({.model = flags->model,
                                .out = flags->out,
                                .json = flags->json,
                                .threads = flags->threads,
                                .force = flags->gguf.force});
    }
    if (flags->target != kGgufTarget) return run_export(*flags);
    return run_export_gguf({.model = flags->model,
                            .out = flags->out,
                            .json = flags->json,
                            .threads = flags->threads,
                            .gguf = flags->gguf});
  });
}

}  // namespace neuronmm::apps
