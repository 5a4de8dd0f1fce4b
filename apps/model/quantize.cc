// neuronmm quantize: a model folder with int8 weights.

#include "compress/quantize.h"

#include <fmt/core.h>

#include "commands.h"

namespace neuronmm::apps {
namespace {

struct QuantizeFlags {
  std::string model, out;
  bool force = false;
};

Result<int> run_quantize(const QuantizeFlags& flags) {
  Progress progress(stderr);
  NMM_ASSIGN(const auto summary, compress::quantize(flags.model, flags.out, flags.force, progress));
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  fmt::print("{} parameters, {:.1f} MB -> {:.1f} MB ({:.4f})\nwritten to {}\n", summary.parameters,
             megabytes(summary.bytes_before), megabytes(summary.bytes_after),
             megabytes(summary.bytes_after) / megabytes(summary.bytes_before), flags.out);
  fmt::print(
      "what it costs in quality: neuronmm compare {} {} --data DIR, or neuronmm perplexity "
      "of both on the same text\n",
      flags.model, flags.out);
  return 0;
}

}  // namespace

void add_quantize(Program& program) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command =
      program.add("quantize", "Round the weights of linear layers to int8, dense or compressed");
  command->add_option("model", flags->model, "Hugging Face model folder")->required();
  command->add_option("-o,--out", flags->out, "the new model folder")->required();
  command->add_flag("--force", flags->force, "replace an existing output folder");
  command->footer(
      "Rounded: attention and MLP matrices, factors, and the LM head (with the embedding table\n"
      "where the two are tied). Norms, biases and an untied embedding table stay as they are.\n"
      "To compress and round at once, compress --weights int8 loses less.");
  program.set_run(command, [flags] { return run_quantize(*flags); });
}

}  // namespace neuronmm::apps
