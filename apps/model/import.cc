// The command neuronmm import: makes a model folder from a GGUF file, or from a model and an
// adapter.

#include "gguf/import.h"

#include <filesystem>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "compress/merge_adapter.h"
#include "compress/quantize.h"
#include "flags.h"
#include "io/quantization.h"
#include "model/bits_flags.h"
#include "model/float_folder.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ImportFlags {
  std::string file, out, dtype = "bf16", json;
  BitsFlags bits;
  bool force = false;
  // Whether an adapter is merged, and whether --dtype was given.
  bool merges = false, has_dtype = false;
};

// Returns the name of the format of the weights in the folder.
std::string format_of(const ImportFlags& flags) {
  const compress::WeightFormats formats = weight_formats(flags.bits);
  if (formats) return io::format_text(formats->linear);
  return flags.merges && !flags.has_dtype ? "the model's dtypes" : flags.dtype;
}

DType dtype_of(const std::string& flag) {
  return flag == "f32" ? DType::kF32 : flag == "f16" ? DType::kF16 : DType::kBF16;
}

// Returns the ids and texts of the tokens: `151645 "<|im_end|>", 151643 "<|endoftext|>"`.
std::string end_tokens_text(const std::vector<gguf::EndToken>& tokens) {
  std::vector<std::string> texts;
  for (const gguf::EndToken& token : tokens)
    texts.push_back(fmt::format("{} {:?}", token.id, token.text));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Json end_tokens_json(const std::vector<gguf::EndToken>& tokens) {
  Json list = Json::array();
  for (const gguf::EndToken& token : tokens)
    list.push_back({{"id", token.id}, {"text", token.text}});
  return list;
}

void print_summary(const ReportWriter& report, const gguf::ImportSummary& summary,
                   const ImportFlags& flags) {
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  if (!summary.class_name.empty())
    report.print("{}: {} parameters, {:.1f} MB -> {:.1f} MB in {}\n", summary.class_name,
                 summary.parameters, megabytes(summary.bytes_before),
                 megabytes(summary.bytes_after), format_of(flags));
  else
    report.print("a vocabulary without weights: the folder has the tokenizer only\n");
  if (!summary.end_tokens.empty())
    report.print("answers end at {}\n", end_tokens_text(summary.end_tokens));
  for (const std::string& note : summary.notes) report.print("{}\n", note);
  report.print("written to {}\n", flags.out);
}

Json summary_json(const gguf::ImportSummary& summary, const ImportFlags& flags) {
  return {{"files", summary.files},
          {"output", flags.out},
          {"architecture", summary.architecture},
          {"class", summary.class_name},
          {"dtype", format_of(flags)},
          {"parameters", summary.parameters},
          {"bytes_before", summary.bytes_before},
          {"bytes_after", summary.bytes_after},
          {"tokenizer", summary.tokenizer},
          {"end_tokens", end_tokens_json(summary.end_tokens)},
          {"notes", summary.notes}};
}

using WriteReport = io::BeforeOutput<gguf::ImportSummary>;

// Imports the weights as fp32 and quantizes them afterwards. fp32 represents every GGUF format
// exactly.
Result<gguf::ImportSummary> import_quantized(const ImportFlags& flags, Progress& progress,
                                             const WriteReport& write_report) {
  FloatFolder floats(flags.out, fs::path(flags.file).stem());
  NMM_TRY(floats.create(flags.force));
  gguf::ImportSummary summary;
  NMM_TRY(floats.fill({}, [&]() -> Status {
    NMM_ASSIGN(summary,
               gguf::import_model(flags.file, floats.model(), DType::kF32, true, progress));
    return {};
  }));
  if (summary.class_name.empty())
    return fail(
        "{}: holds a vocabulary without weights; import it without --bits for a folder with the "
        "tokenizer, or name the file of the model",
        flags.file);
  const compress::QuantizeRequest request = {.model = floats.model(),
                                             .out = flags.out,
                                             .formats = *weight_formats(flags.bits),
                                             .force = flags.force};
  const auto backend = make_backend({});
  if (!backend.ok()) return backend.error();
  const auto before_output = [&](const compress::QuantizeSummary& quantized) {
    summary.bytes_after = quantized.bytes_after;
    return write_report(summary);
  };
  NMM_TRY(compress::quantize(request, **backend, progress, {}, nullptr, before_output));
  NMM_TRY(floats.remove());
  return summary;
}

// Returns the class of the model that the flags name.
Result<std::string> class_of(const ImportFlags& flags) {
  NMM_ASSIGN(const auto config, io::ModelConfig::load(fs::path(flags.file) / "config.json"));
  return std::string(io::architecture_name(config.architecture));
}

// Rounds the merged weights while they are written. They are floats before that, and nowhere in
// memory as a whole.
Result<gguf::ImportSummary> merge_quantized(const ImportFlags& flags, Progress& progress,
                                            const WriteReport& write_report) {
  const compress::QuantizeRequest request = {.model = flags.file,
                                             .out = flags.out,
                                             .formats = *weight_formats(flags.bits),
                                             .force = flags.force};
  const auto backend = make_backend({});
  if (!backend.ok()) return backend.error();
  gguf::ImportSummary summary;
  summary.tokenizer = true;
  summary.files = {flags.file};
  NMM_ASSIGN(summary.class_name, class_of(flags));
  const auto before_output = [&](const compress::QuantizeSummary& quantized) {
    summary.parameters = quantized.parameters;
    summary.bytes_before = quantized.bytes_before;
    summary.bytes_after = quantized.bytes_after;
    return write_report(summary);
  };
  NMM_TRY(compress::quantize(request, **backend, progress, {}, nullptr, before_output));
  return summary;
}

// Writes the model with the adapter, which Program::run() has chosen for it.
Result<gguf::ImportSummary> merge_floats(const ImportFlags& flags, Progress& progress,
                                         const WriteReport& write_report) {
  const compress::MergeRequest request = {
      .model = flags.file,
      .out = flags.out,
      .dtype = flags.has_dtype ? std::optional(dtype_of(flags.dtype)) : std::nullopt,
      .force = flags.force};
  gguf::ImportSummary summary;
  summary.tokenizer = true;
  summary.files = {flags.file};
  NMM_TRY(compress::write_merged(request, progress, [&](const compress::MergeSummary& merged) {
    summary.class_name = merged.class_name;
    summary.parameters = merged.parameters;
    summary.bytes_before = merged.bytes_before;
    summary.bytes_after = merged.bytes_after;
    summary.notes = merged.notes;
    return write_report(summary);
  }));
  return summary;
}

Result<gguf::ImportSummary> import_file(const ImportFlags& flags, Progress& progress,
                                        const WriteReport& write_report) {
  if (flags.merges && flags.bits.bits) return merge_quantized(flags, progress, write_report);
  if (flags.merges) return merge_floats(flags, progress, write_report);
  if (flags.bits.bits) return import_quantized(flags, progress, write_report);
  return gguf::import_model(flags.file, flags.out, dtype_of(flags.dtype), flags.force, progress,
                            write_report);
}

Result<int> run_import(const ImportFlags& flags) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  Progress progress(stderr);
  NMM_ASSIGN(const auto summary,
             import_file(flags, progress, [&](const gguf::ImportSummary& imported) {
               return report.write_json(summary_json(imported, flags));
             }));
  print_summary(report, summary, flags);
  return 0;
}

}  // namespace

void add_import(Program& program) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command =
      program.add(CommandGroup::kModels, "import",
                  "Make a model folder from a GGUF file, or from a model and an adapter",
                  {"neuronmm import model.Q4_K_M.gguf -o model",
                   "neuronmm import MODEL_DIR --adapter adapter -o merged"});
  command->add_option("FILE", flags->file, "GGUF file or one part of it; with --adapter any model")
      ->required()
      ->group(kInput);
  const CLI::Option* const adapter = add_adapter_option(command);
  add_output_option(command, flags->out, "Write the model to this new folder")->required();
  add_force_option(command, flags->force);
  add_json_option(command, flags->json);
  const auto dtype =
      command->add_option("--dtype", flags->dtype, "Write weights as bf16, f16 or f32")
          ->check(CLI::IsMember({"bf16", "f16", "f32"}))
          ->type_name("TYPE")
          ->capture_default_str()
          ->group(kQuality);
  add_bits_flags(command, flags->bits, "Round linear weights to 8, 6 or 4 bits, without a text")
      ->excludes(dtype);
  command->footer(
      "Quantized weights become floats; --dtype f32 keeps them exactly. `neuronmm\n"
      "quantize --calibration` rounds them again and loses less than --bits here.");
  command->parse_complete_callback([flags, adapter, dtype] {
    weight_formats(flags->bits);
    flags->merges = adapter->count() > 0;
    flags->has_dtype = dtype->count() > 0;
  });
  program.set_run(command, [flags] { return run_import(*flags); });
}

}  // namespace neuronmm::apps
