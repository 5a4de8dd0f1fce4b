// The command neuronmm check: compares the logits or the greedy tokens of a model with a reference.

#include <optional>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "eval/accuracy_check.h"
#include "eval/reference_file.h"
#include "flags.h"
#include "io/atomic_file.h"
#include "io/model_name.h"
#include "model/prompts.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kNewTokens = 32;  // Assumed: enough to show an error of the cache.

struct CheckFlags {
  std::string model_dir, reference, save_reference, json;
  std::string mode = "logit-matching", tolerance_map;
  double divergence_tol = eval::AccuracyOptions().divergence_tol;
  std::vector<std::string> prompts;
  std::optional<int64_t> new_tokens;
  DeviceOptions device;
};

void add_tolerance_flags(CLI::App* command, CheckFlags& flags) {
  command->add_option("--mode", flags.mode, "Use logit-matching or token-matching")
      ->check(CLI::IsMember({"logit-matching", "token-matching"}))
      ->type_name("MODE")
      ->capture_default_str()
      ->group(kQuality);
  command->add_option("--divergence-tol", flags.divergence_tol, "Allow logits to differ by X")
      ->check(real_range(0.0, 1e30))
      ->capture_default_str()
      ->group(kQuality);
  command
      ->add_option("--tol-map", flags.tolerance_map,
                   "Allow {k: (absolute, relative)} of the k largest logits")
      ->check([](const std::string& text) {
        const auto parsed = eval::parse_tolerance_map(text);
        return parsed ? "" : parsed.error().message;
      })
      ->type_name("MAP")
      ->group(kRare);
}

void add_flags(CLI::App* command, CheckFlags& flags) {
  command
      ->add_option("MODEL_DIR", flags.model_dir, "Folder, GGUF file or name of the model to check")
      ->required()
      ->group(kInput);
  add_adapter_option(command);
  command
      ->add_option("--reference", flags.reference,
                   "Compare with this model, or with a file of logits")
      ->type_name("PATH")
      ->required()
      ->group(kInput);
  command->add_option("--prompt", flags.prompts, "Continue TEXT; repeatable")
      ->allow_extra_args(false)
      ->default_str("two short texts")
      ->group(kInput);
  command->add_option("--new-tokens", flags.new_tokens, "Generate N tokens after each prompt")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->default_str(std::to_string(kNewTokens))
      ->group(kInput);
  command
      ->add_option("--save-reference", flags.save_reference,
                   "Save the reference's logits to this .safetensors file")
      ->check([](const std::string& path) {
        return path.ends_with(".safetensors")
                   ? std::string()
                   : fmt::format("expected a file name that ends in .safetensors, found {:?}",
                                 path);
      })
      ->type_name("FILE")
      ->group(kOutput);
  add_json_option(command, flags.json);
  add_tolerance_flags(command, flags);
  add_device_options(command, flags.device);
}

// Returns the logits of the reference, computed or read from a file. The reference model is freed
// before the model under test is loaded.
Result<eval::ReferenceLogits> reference_logits(const CheckFlags& flags,
                                               const io::ModelConfig& config,
                                               const ops::Backend& backend, Progress& progress) {
  // A folder or a GGUF file is a model whose logits are computed here; anything else is a file of
  // recorded logits.
  if (!io::may_be_model(flags.reference)) {
    if (!flags.prompts.empty() || flags.new_tokens) {
      return fail(
          "{}: a recording holds its own sequences; --prompt and --new-tokens need a "
          "reference folder",
          flags.reference);
    }
    return eval::read_reference_logits(flags.reference, config);
  }
  NMM_ASSIGN(const auto reference, model::Transformer::load(flags.reference, backend));
  const int64_t vocab_size = reference.config().vocab_size;
  if (vocab_size != config.vocab_size) {
    return fail("--reference: expected the vocab_size of {}, {}; found {} in {}", flags.model_dir,
                config.vocab_size, vocab_size, flags.reference);
  }
  NMM_ASSIGN(const auto prompts, prompt_tokens(flags.reference, flags.prompts, vocab_size));
  return eval::record_reference_logits(reference, prompts, flags.new_tokens.value_or(kNewTokens),
                                       progress);
}

void print_report(const ReportWriter& writer, const eval::AccuracyReport& report) {
  writer.print("compared            {} positions of {} sequences\n", report.positions,
               report.sequences);
  const eval::LogitDeviation& largest = report.largest_deviation;
  writer.print("largest difference  {:.6g}", largest.value);
  if (largest.value > 0.0) {
    writer.print(" (sequence {}, position {}, token {}: logit {:.6g}, reference {:.6g})",
                 largest.sequence, largest.position, largest.token, largest.model_logit,
                 largest.reference_logit);
  }
  writer.print("\ndiverging tokens    {}\n", report.divergences);
  if (const auto& first = report.first_divergence) {
    writer.print(
        "first divergence    sequence {}, position {}: token {}, reference {}, logits {:.6g} "
        "apart\n",
        first->sequence, first->position, first->model_token, first->reference_token,
        first->logit_gap);
  }
  if (!report.passed) writer.print("failed at           {}\n", report.first_failure);
  writer.print("{}\n", report.passed ? "PASSED" : "FAILED");
}

Json to_json(const eval::AccuracyReport& report) {
  const eval::LogitDeviation& largest = report.largest_deviation;
  Json json = {{"passed", report.passed},
               {"sequences", report.sequences},
               {"positions", report.positions},
               {"largest_difference", largest.value},
               {"divergences", report.divergences}};
  if (const auto& first = report.first_divergence) {
    json["first_divergence"] = {{"sequence", first->sequence},
                                {"position", first->position},
                                {"token", first->model_token},
                                {"reference_token", first->reference_token},
                                {"gap", first->logit_gap}};
  }
  if (!report.passed) json["first_failure"] = report.first_failure;
  return json;
}

// Returns exit code 1 if the check does not pass, so that scripts can test for it.
Result<int> run_check(const CheckFlags& flags) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
  eval::AccuracyOptions options;
  options.divergence_tol = flags.divergence_tol;
  if (flags.mode == "token-matching") {
    options.mode = eval::AccuracyOptions::Mode::kTokenMatching;
  }
  if (!flags.tolerance_map.empty()) {
    NMM_ASSIGN(options.tolerance_map, eval::parse_tolerance_map(flags.tolerance_map));
  }
  if (!flags.save_reference.empty()) {  // a path that cannot be written is found before the work
    NMM_ASSIGN(const auto file, io::AtomicFile::create(flags.save_reference));
  }
  NMM_ASSIGN(const auto config, io::ModelConfig::load(fs::path(flags.model_dir) / "config.json"));
  NMM_ASSIGN(const auto backend, make_backend(flags.device));
  Progress progress(stderr);
  NMM_ASSIGN(const auto reference, reference_logits(flags, config, *backend, progress));
  if (!flags.save_reference.empty()) {
    NMM_TRY(eval::write_reference_logits(flags.save_reference, reference));
  }
  NMM_ASSIGN(const auto transformer, model::Transformer::load(flags.model_dir, *backend));
  NMM_ASSIGN(const auto report, eval::check_accuracy(transformer, reference, options, progress));
  print_report(writer, report);
  NMM_TRY(writer.write_json(to_json(report)));
  return report.passed ? 0 : 1;
}

}  // namespace

void add_check(Program& program) {
  CLI::App* command = program.add(
      CommandGroup::kModels, "check", "Compare a model's logits or tokens with a reference's",
      {"neuronmm check small --reference MODEL_DIR",
       "neuronmm check small --reference logits.safetensors --mode token-matching"});
  auto flags = std::make_shared<CheckFlags>();
  add_flags(command, *flags);
  program.set_run(
      command, [flags] { return run_check(*flags); }, ProcessMode::kTensorParallel);
}

}  // namespace neuronmm::apps
