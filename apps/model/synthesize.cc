// The command neuronmm synthesize: makes a model folder with random weights from a config.json.

#include "model/synthesize.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "io/quantization.h"
#include "model/bits_flags.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct SynthesizeOptions {
  std::string config, out, json;
  uint64_t seed = 0;
  bool force = false;
  BitsFlags bits;
};

Result<int> run_synthesize(const SynthesizeOptions& options) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(options.json));
  NMM_ASSIGN(const io::ModelConfig config, io::ModelConfig::load(options.config));
  const compress::WeightFormats formats = weight_formats(options.bits);
  NMM_TRY(compress::check_table(formats, config, options.config));
  const auto quantization = compress::quantization_of(formats, config);
  Progress progress(stderr);
  const auto write_report = [&] {
    return report.write_json(
        Json{{"output", options.out},
             {"config", options.config},
             {"seed", options.seed},
             {"weights", quantization ? io::quantization_text(*quantization) : "floats"}});
  };
  NMM_TRY(model::synthesize(config, options.config, options.out, options.force, options.seed,
                            progress, write_report, quantization));
  report.print("{}\n", options.out);
  return 0;
}

}  // namespace

void add_synthesize(Program& program) {
  auto options = std::make_shared<SynthesizeOptions>();
  CLI::App* command =
      program.add(CommandGroup::kModels, "synthesize",
                  "Write a model folder with random weights of a real shape",
                  {"neuronmm synthesize --config config.json -o random",
                   "neuronmm synthesize --config config.json -o random --bits 4 --force"});
  command->add_option("--config", options->config, "Take the shape from this config.json")
      ->type_name("FILE")
      ->required()
      ->group(kInput);
  add_output_option(command, options->out, "Write the model to this new folder")->required();
  add_force_option(command, options->force);
  add_json_option(command, options->json);
  command->add_option("--seed", options->seed, "Seed of the random weights")
      ->check(whole_number())
      ->type_name("N")
      ->capture_default_str()
      ->group(kAdvanced);
  add_bits_flags(command, options->bits, "Write weights of 8, 6 or 4 bits")->default_str("floats");
  command->parse_complete_callback([options] { weight_formats(options->bits); });
  command->footer(
      "The folder has no tokenizer: bench, inspect and compress --method svd work on\n"
      "it, commands that read text do not.");
  program.set_run(command, [options] { return run_synthesize(*options); });
}

}  // namespace neuronmm::apps
