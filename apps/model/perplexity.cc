// The command neuronmm perplexity: measures how well a model predicts a text, and how its
// predictions differ from those of a reference model.

#include "eval/perplexity.h"

#include <cmath>
#include <filesystem>
#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "eval/paired_perplexity.h"
#include "eval/perplexity_json.h"
#include "flags.h"
#include "io/checksum.h"
#include "io/compression_record.h"
#include "io/model_config.h"
#include "io/text_file.h"
#include "model/quality_text.h"
#include "report_writer.h"
#include "text/documents.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::apps {
namespace {

struct PerplexityFlags {
  std::string model_dir, text, reference, json;
  int64_t context = 0;  // tokens per chunk; 0 means the default of the model
  int64_t limit = 0;    // the number of chunks; 0 means all
  bool documents = false;
  std::string kv = "fp32";  // the dtype of keys and values
  DeviceOptions device;
};

void add_flags(CLI::App* command, PerplexityFlags& flags) {
  command->add_option("MODEL_DIR", flags.model_dir, kModelHelp)->required()->group(kInput);
  command->add_option("TEXT", flags.text, "File with the text; - reads standard input")
      ->required()
      ->group(kInput);
  add_adapter_option(command);
  command->add_flag("--documents", flags.documents, "Read JSON lines whose \"text\" is a document")
      ->group(kInput);
  command->add_option("--limit", flags.limit, "Use only the first N chunks")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->default_str("all")
      ->group(kInput);
  add_json_option(command, flags.json);
  command
      ->add_option("--reference", flags.reference, "Also measure the KL divergence from this model")
      ->type_name("DIR")
      ->group(kQuality);
  command->add_option("--context", flags.context, "Cut the text into chunks of N tokens")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30))
      ->default_str("at most 2048")
      ->group(kQuality);
  command->add_option("--kv", flags.kv, "Keep keys and values in fp32, bf16 or int8")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}))
      ->type_name("TYPE")
      ->capture_default_str()
      ->group(kQuality);
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
  command->footer(
      "With --reference the report has:\n"
      "  KL     KL(reference || model) in nats per token\n"
      "  top-1  share of tokens where both models find the same one likeliest\n"
      "  added  loss of the model minus loss of the reference, in nats per token\n"
      "Intervals have 95 % confidence, with the chunks as samples.");
}

Result<std::vector<text::TokenId>> encode(const text::Tokenizer& tokenizer,
                                          const PerplexityFlags& flags, const std::string& text) {
  if (!flags.documents) return tokenizer.encode(text);
  NMM_ASSIGN(const auto records, text::encode_records(tokenizer, text, flags.text));
  return text::joined(records);
}

// Keeps the first `limit` chunks. A text with fewer chunks is an error, because the report would
// look as if there were as many as the user asked for.
Status keep_first_chunks(std::vector<text::TokenId>& tokens, int64_t context, int64_t limit) {
  if (limit == 0) return {};
  const int64_t chunks = std::ssize(tokens) / context;
  if (chunks < limit) {
    return fail("--limit: expected at most the {} chunks of {} tokens that the text has, found {}",
                chunks, context, limit);
  }
  tokens.resize(static_cast<size_t>(limit * context));
  return {};
}

void print_report(const ReportWriter& writer, const eval::PerplexityReport& report,
                  const char* context_note, const char* speed_note) {
  const std::string interval = std::isfinite(report.half_interval())
                                   ? fmt::format(" +- {:.4f} (95 %)", report.half_interval())
                                   : std::string();
  writer.print("perplexity     {:.4f}{}\n", report.perplexity, interval);
  writer.print("context        {} tokens{}\n", report.context, context_note);
  writer.print("chunks         {}\n", report.chunks);
  writer.print("scored tokens  {} of {}; {} after the last whole chunk were dropped\n",
               report.scored_tokens, report.tokens, report.tokens - report.chunks * report.context);
  writer.print("tokens/s       {:.1f}{}\n",
               static_cast<double>(report.scored_tokens) / report.seconds, speed_note);
}

void print_divergence(const ReportWriter& writer, const std::string& reference,
                      const eval::DivergenceSummary& summary) {
  writer.print("\nagainst        {}, perplexity {:.4f}\n", reference, summary.dense_perplexity);
  writer.print("KL             {} nats per token\n", divergence_text(summary.divergence));
  writer.print("top-1          {}\n", with_interval(summary.agreement));
  writer.print("added          {} nats per token\n", with_interval(summary.added_loss));
  writer.print("ratio          {}\n", ratio_text(summary.added_loss));
}

// The perplexity of the model and, with --reference, its divergence from the reference.
struct PerplexityResult {
  eval::PerplexityReport report;
  std::optional<eval::DivergenceSummary> divergence;
};

// Fails if the reference's tokenizer makes other tokens of the text.
Status check_reference(const PerplexityFlags& flags, const text::Tokenizer& tokenizer,
                       const std::string& text) {
  if (flags.reference.empty()) return {};
  NMM_ASSIGN(const auto reference, text::Tokenizer::load(flags.reference));
  return eval::check_same_tokens(reference, flags.reference, tokenizer, flags.model_dir, text);
}

Result<PerplexityResult> measure(const model::Transformer& transformer,
                                 std::span<const text::TokenId> tokens, int64_t context,
                                 const PerplexityFlags& flags) {
  Progress progress(stderr);
  const DType cache = flags.kv == "int8"   ? DType::kI8
                      : flags.kv == "bf16" ? DType::kBF16
                                           : DType::kF32;
  if (flags.reference.empty()) {
    NMM_ASSIGN(auto report, eval::perplexity(transformer, tokens, context, progress, cache));
    return PerplexityResult{std::move(report), {}};
  }
  NMM_ASSIGN(const auto reference,
             model::Transformer::load(flags.reference, transformer.backend()));
  NMM_ASSIGN(auto paired,
             eval::paired_perplexity(reference, transformer, tokens, context, progress, cache));
  return PerplexityResult{std::move(paired.report), paired.divergence};
}

Status write_json(ReportWriter& writer, const PerplexityFlags& flags,
                  const PerplexityResult& measured, bool calibrated_on) {
  nlohmann::ordered_json json = {{"model", flags.model_dir}, {"text", flags.text}};
  json.update(eval::perplexity_json(measured.report));
  json["calibrated_on_text"] = calibrated_on;
  if (measured.divergence) {
    json["reference"] = flags.reference;
    json.update(eval::divergence_json(*measured.divergence));
  }
  return writer.write_json(json);
}

// The text, which may be standard input, is read and encoded before the model is loaded, because
// loading takes longer.
Result<int> run_perplexity(const PerplexityFlags& flags) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(flags.model_dir));
  NMM_ASSIGN(const auto text, io::read_corpus(flags.text));
  NMM_ASSIGN(const auto config,
             io::ModelConfig::load(std::filesystem::path(flags.model_dir) / "config.json"));
  const int64_t default_context = eval::default_context(config);
  const int64_t context = flags.context > 0 ? flags.context : default_context;
  NMM_ASSIGN(auto tokens, encode(tokenizer, flags, text));
  if (std::ssize(tokens) < context) {
    return fail("{}: expected at least the {} tokens of one chunk (--context), found {}",
                flags.text == "-" ? "standard input" : flags.text, context, tokens.size());
  }
  NMM_TRY(keep_first_chunks(tokens, context, flags.limit));
  NMM_TRY(check_reference(flags, tokenizer, text));
  NMM_ASSIGN(const auto backend, make_backend(flags.device));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(flags.model_dir, *backend));
  const bool calibrated_on = io::calibrated_on(transformer.config(), io::checksum(text));
  if (calibrated_on) note_calibrated_on(flags.model_dir, flags.text);
  NMM_ASSIGN(const auto measured, measure(transformer, tokens, context, flags));
  const bool models_limit = default_context == transformer.config().max_position_embeddings;
  print_report(writer, measured.report,
               flags.context > 0 ? ""
               : models_limit    ? " (default: the model's max_position_embeddings)"
                                 : " (default)",
               flags.device.simulated() ? " (predicted for a simulated device)" : "");
  if (measured.divergence) print_divergence(writer, flags.reference, *measured.divergence);
  NMM_TRY(write_json(writer, flags, measured, calibrated_on));
  return 0;
}

}  // namespace

void add_perplexity(Program& program) {
  CLI::App* command = program.add(CommandGroup::kModels, "perplexity",
                                  "Measure the perplexity of a text, as GPTQ and SVD-LLM define it",
                                  {"neuronmm perplexity MODEL_DIR text.txt",
                                   "neuronmm perplexity small text.txt --reference MODEL_DIR"});
  auto flags = std::make_shared<PerplexityFlags>();
  add_flags(command, *flags);
  program.set_run(
      command, [flags] { return run_perplexity(*flags); }, ProcessMode::kTensorParallel);
}

}  // namespace neuronmm::apps
