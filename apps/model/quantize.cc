// neuronmm quantize: a model folder with int8 weights.

#include "compress/quantize.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct QuantizeFlags {
  std::string model, out, json;
  bool force = false;
};

Result<int> run_quantize(const QuantizeFlags& flags) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  Progress progress(stderr);
  NMM_ASSIGN(const auto summary, compress::quantize(flags.model, flags.out, flags.force, progress));
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  report.print("{} parameters, {:.1f} MB -> {:.1f} MB ({:.4f})\nwritten to {}\n",
               summary.parameters, megabytes(summary.bytes_before), megabytes(summary.bytes_after),
               megabytes(summary.bytes_after) / megabytes(summary.bytes_before), flags.out);
  report.print(
      "what it costs in quality: neuronmm compare {} {} --data DIR, or neuronmm perplexity "
      "of both on the same text\n",
      flags.model, flags.out);
  NMM_TRY(report.write_json(Json{{"model", flags.model},
                                 {"output", flags.out},
                                 {"weights", "int8"},
                                 {"parameters", summary.parameters},
                                 {"bytes_before", summary.bytes_before},
                                 {"bytes_after", summary.bytes_after}}));
  return 0;
}

}  // namespace

void add_quantize(Program& program) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command =
      program.add(CommandGroup::kModels, "quantize",
                  "Round the weights of linear layers to int8, dense or compressed");
  command->add_option("MODEL_DIR", flags->model, "a Hugging Face model folder")->required();
  add_output_option(command, flags->out, "the new model folder")->required();
  add_json_option(command, flags->json);
  command->add_flag("--force", flags->force, "replace an existing output folder");
  command->footer(
      "Rounded: attention and MLP matrices, factors, and the LM head (with the embedding table\n"
      "where the two are tied). Norms, biases and an untied embedding table stay as they are.\n"
      "To compress and round at once, compress --weights int8 loses less.");
  program.set_run(command, [flags] { return run_quantize(*flags); });
}

}  // namespace neuronmm::apps
