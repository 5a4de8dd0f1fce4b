// The command neuronmm quantize: makes a model folder with weights of 8, 6 or 4 bits.

#include "compress/quantize.h"

#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "compress/quantize_settings.h"
#include "flags.h"
#include "io/quantization.h"
#include "model/bits_flags.h"
#include "model/data_processes.h"
#include "model/float_folder.h"
#include "model/reconstruct_option.h"
#include "model/reconstruction_report.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct QuantizeFlags {
  compress::QuantizeGiven given;
  std::string json;
  BitsFlags bits;
  std::string rounding, smoothing, reconstruct;  // each is empty if the flag is not given
  bool dequantize = false;
  DeviceOptions device;
};

// Returns the complete settings. Throws CLI::ValidationError with the library's message if it
// refuses the flags.
compress::QuantizeRequest quantize_settings(const QuantizeFlags& flags) {
  compress::QuantizeGiven given = flags.given;
  given.bits = flags.bits.bits;
  given.group = flags.bits.group;
  given.lm_head_bits = flags.bits.lm_head_bits;
  given.embedding_bits = flags.bits.embedding_bits;
  if (!flags.rounding.empty()) given.rounding = compress::parse_rounding(flags.rounding).value();
  if (!flags.smoothing.empty()) given.smooth = flags.smoothing == "on";
  if (!flags.reconstruct.empty()) {
    given.reconstruct = compress::parse_reconstruct(flags.reconstruct).value();
  }
  auto settings = compress::quantize_settings(given, OptionNames::kFlags);
  if (!settings.ok()) throw CLI::ValidationError(settings.error().message);
  return *std::move(settings);
}

double bits_per_weight(const compress::QuantizeSummary& summary) {
  if (summary.parameters == 0) return 0.0;
  return 8.0 * static_cast<double>(summary.bytes_after) / static_cast<double>(summary.parameters);
}

Json summary_json(const compress::QuantizeRequest& request, const std::string& model,
                  const compress::QuantizeSummary& summary) {
  return {{"model", model},
          {"output", request.out.string()},
          {"weights", io::format_text(request.formats.linear)},
          {"lm_head", io::format_text(request.formats.lm_head)},
          {"embedding", io::format_text(request.formats.embedding)},
          {"rounding", compress::rounding_name(request.rounding)},
          {"smoothing", request.smooth},
          {"calibration_tokens", summary.calibration_tokens},
          {"reconstruct", compress::reconstruct_text(request.reconstruct)},
          {"reconstruction", reconstruction_json(summary.reconstruction)},
          {"bits_per_weight", bits_per_weight(summary)},
          {"parameters", summary.parameters},
          {"bytes_before", summary.bytes_before},
          {"bytes_after", summary.bytes_after}};
}

void print_summary(const ReportWriter& report, const compress::QuantizeRequest& request,
                   const std::string& model, const compress::QuantizeSummary& summary) {
  const std::string out = request.out.string();
  print_reconstruction(report, summary.reconstruction);
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  report.print("{} parameters, {:.1f} MB -> {:.1f} MB ({:.4f}), {:.3f} bits each\nwritten to {}\n",
               summary.parameters, megabytes(summary.bytes_before), megabytes(summary.bytes_after),
               megabytes(summary.bytes_after) / megabytes(summary.bytes_before),
               bits_per_weight(summary), out);
  report.print("what it costs in quality: neuronmm perplexity {} TEXT.txt --reference {}\n", out,
               model);
}

// Quantizes the model in `folder`, which has float weights.
Result<int> quantize_with(const QuantizeFlags& flags, const std::filesystem::path& folder,
                          const ops::Backend& backend, compress::DataParallel* helpers) {
  compress::QuantizeRequest request = quantize_settings(flags);
  request.model = folder;
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  if (request.calibration) NMM_TRY(compress::read_texts(*request.calibration));
  Progress progress(stderr);
  const std::string model = flags.given.model.string();
  const auto write_report = [&](const compress::QuantizeSummary& summary) {
    return report.write_json(summary_json(request, model, summary));
  };
  NMM_ASSIGN(const auto summary,
             compress::quantize(request, backend, progress, {}, helpers, write_report));
  print_summary(report, request, model, summary);
  return 0;
}

void add_rounding_flags(CLI::App* command, QuantizeFlags& flags) {
  add_bits_flags(command, flags.bits, "Round to 8, 6 or 4 bits per weight")->default_str("8");
  add_reconstruct_option(command, flags.reconstruct);
  command->add_option("--rounding", flags.rounding, "Round by gptq or nearest")
      ->check(CLI::IsMember({"gptq", "nearest"}))
      ->type_name("RULE")
      ->default_str("gptq with a text")
      ->group(kAdvanced);
  command->add_option("--smoothing", flags.smoothing, "Even out channels first")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("ON|OFF")
      ->default_str("on with a text")
      ->group(kAdvanced);
  command->add_flag("--dequantize", flags.dequantize, kDequantizeHelp)->group(kRare);
}

}  // namespace

void add_quantize(Program& program) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command = program.add(
      CommandGroup::kModels, "quantize", "Round the linear weights of a model to 8, 6 or 4 bits",
      {"neuronmm quantize MODEL_DIR -o small --bits 4 --calibration text.txt",
       "neuronmm quantize MODEL_DIR -o small --bits 8"});
  command->add_option("MODEL_DIR", flags->given.model, kModelHelp)->required()->group(kInput);
  add_calibration_option(command, flags->given.calibration);
  add_calibration_tokens_option(command, flags->given.calibration_tokens, "32768");
  add_statistics_option(command, flags->given.statistics);
  add_output_option(command, flags->given.out, "Write the rounded model to this new folder")
      ->required();
  add_force_option(command, flags->given.force);
  add_json_option(command, flags->json);
  add_rounding_flags(command, *flags);
  add_device_options(command, flags->device);
  command->footer(
      "The command rounds the matrices of attention and MLPs, the LM head and the\n"
      "embedding table. Norms and biases keep their format.");
  command->parse_complete_callback([flags] {
    require_one_stdin("--calibration", flags->given.calibration);
    quantize_settings(*flags);
  });
  program.set_run(
      command,
      [flags] {
        return run_on_floats(
            flags->given.model, flags->given.out,
            {.dequantize = flags->dequantize, .force = flags->given.force},
            [&](const std::filesystem::path& model) {
              return run_data_parallel(
                  model, flags->device,
                  [&](const ops::Backend& backend, compress::DataParallel* helpers) {
                    return quantize_with(*flags, model, backend, helpers);
                  });
            });
      },
      ProcessMode::kDataParallel);
}

}  // namespace neuronmm::apps
