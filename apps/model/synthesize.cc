// neuronmm synthesize: a model folder with random weights, from nothing but a config.json.

#include "model/synthesize.h"

#include <fmt/core.h>

#include "commands.h"

namespace neuronmm::apps {
namespace {

struct SynthesizeOptions {
  std::string config, out;
  uint64_t seed = 0;
  bool force = false;
};

Result<int> run_synthesize(const SynthesizeOptions& options) {
  NMM_ASSIGN(const io::ModelConfig config, io::ModelConfig::load(options.config));
  Progress progress(stderr);
  NMM_TRY(model::synthesize(config, options.config, options.out, options.force, options.seed,
                            progress));
  fmt::print("{}\n", options.out);
  return 0;
}

}  // namespace

void add_synthesize(Program& program) {
  auto options = std::make_shared<SynthesizeOptions>();
  CLI::App* command =
      program.add("synthesize", "Write a model folder with random weights of a real shape");
  command->add_option("--config", options->config, "config.json of the model whose shape to use")
      ->required();
  command->add_option("-o,--out", options->out, "folder to write")->required();
  command->add_option("--seed", options->seed, "seed of the weights")->capture_default_str();
  command->add_flag("--force", options->force, "replace an existing model folder");
  command->footer(
      "The folder has no tokenizer: bench, inspect and compress --method svd work on it,\n"
      "commands that read text do not.");
  program.set_run(command, [options] { return run_synthesize(*options); });
}

}  // namespace neuronmm::apps
