// neuronmm import: a model folder from a GGUF file.

#include "gguf/import.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct ImportFlags {
  std::string file, out, dtype = "bf16", json;
  bool force = false;
};

DType dtype_of(const std::string& flag) {
  return flag == "f32" ? DType::kF32 : flag == "f16" ? DType::kF16 : DType::kBF16;
}

void print_summary(const ReportWriter& report, const gguf::ImportSummary& summary,
                   const ImportFlags& flags) {
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  if (!summary.class_name.empty())
    report.print("{}: {} parameters, {:.1f} MB -> {:.1f} MB in {}\n", summary.class_name,
                 summary.parameters, megabytes(summary.bytes_before),
                 megabytes(summary.bytes_after), flags.dtype);
  else
    report.print("a vocabulary without weights: the folder has the tokenizer only\n");
  for (const std::string& note : summary.notes) report.print("{}\n", note);
  report.print("written to {}\n", flags.out);
}

Result<int> run_import(const ImportFlags& flags) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  Progress progress(stderr);
  NMM_ASSIGN(const auto summary, gguf::import_model(flags.file, flags.out, dtype_of(flags.dtype),
                                                    flags.force, progress));
  print_summary(report, summary, flags);
  NMM_TRY(report.write_json(Json{{"files", summary.files},
                                 {"output", flags.out},
                                 {"architecture", summary.architecture},
                                 {"class", summary.class_name},
                                 {"dtype", flags.dtype},
                                 {"parameters", summary.parameters},
                                 {"bytes_before", summary.bytes_before},
                                 {"bytes_after", summary.bytes_after},
                                 {"tokenizer", summary.tokenizer},
                                 {"notes", summary.notes}}));
  return 0;
}

}  // namespace

void add_import(Program& program) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command = program.add(CommandGroup::kModels, "import",
                                  "Make a model folder of a GGUF file (llama, qwen2, qwen3)");
  command->add_option("FILE", flags->file, "a GGUF file; of a split one, any part")->required();
  add_output_option(command, flags->out, "the new model folder")->required();
  command->add_option("--dtype", flags->dtype, "of the weights in the folder")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}))
      ->capture_default_str();
  add_json_option(command, flags->json);
  command->add_flag("--force", flags->force, "replace an existing model folder");
  command->footer(
      "Quantized weights are made floats, as exact as --dtype f32 holds them; quantize or "
      "compress\n"
      "the folder to make it small again. A file without tensors gives a folder with a tokenizer.");
  program.set_run(command, [flags] { return run_import(*flags); });
}

}  // namespace neuronmm::apps
