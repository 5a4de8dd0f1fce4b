// neuronmm quantize: a model folder with weights of 8, 6 or 4 bits.

#include "compress/quantize.h"

#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "io/quantization.h"
#include "io/text_file.h"
#include "model/data_processes.h"
#include "model/float_folder.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct QuantizeFlags {
  compress::QuantizeRequest request;
  std::string json;
  int bits = 8;
  std::optional<int> lm_head_bits, group;
  std::vector<std::string> calibration;
  int64_t calibration_tokens = compress::kShapeCalibrationTokens;
  std::string rounding, smoothing;  // empty: what fits the other flags
  bool dequantize = false;
  DeviceOptions device;
};

compress::QuantizedFormats formats_of(const QuantizeFlags& flags) {
  const auto formats = compress::quantized_formats(flags.bits, flags.group, flags.lm_head_bits);
  if (flags.group && formats.linear.bits != 4 && formats.lm_head.bits != 4) {
    throw CLI::ValidationError(
        "--group", fmt::format("only weights of 4 bits have groups, found --bits {}", flags.bits));
  }
  return formats;
}

bool has_text(const QuantizeFlags& flags) {
  return !flags.calibration.empty() || !flags.request.statistics.empty();
}

// Completes flags.request but for the calibration text.
compress::QuantizeRequest quantize_request(const QuantizeFlags& flags) {
  compress::QuantizeRequest request = flags.request;
  request.formats = formats_of(flags);
  const bool text = has_text(flags);
  request.smooth = flags.smoothing.empty() ? text : flags.smoothing == "on";
  const bool gptq = flags.rounding.empty() ? text : flags.rounding == "gptq";
  request.rounding = gptq ? compress::Rounding::kGptq : compress::Rounding::kNearest;
  const auto needs_text = [](const char* flag) {
    throw CLI::ValidationError(flag, "needs --calibration TEXT or --statistics DIR");
  };
  if (gptq && !text) needs_text("--rounding gptq");
  if (request.smooth && !text) needs_text("--smoothing on");
  if (text && !gptq && !request.smooth) {
    throw CLI::ValidationError("--calibration",
                               "has no use beside --rounding nearest and --smoothing off");
  }
  return request;
}

Status read_calibration(const QuantizeFlags& flags, compress::QuantizeRequest& request) {
  if (flags.calibration.empty()) return {};
  request.calibration.emplace();
  request.calibration->max_tokens = flags.calibration_tokens;
  for (const std::string& name : flags.calibration) {
    NMM_ASSIGN(auto text, io::read_corpus(name));
    request.calibration->texts.push_back(compress::NamedText::of_file(name, std::move(text)));
  }
  return {};
}

// `folder`: of the model's floats.
Result<int> quantize_with(const QuantizeFlags& flags, const std::filesystem::path& folder,
                          const ops::Backend& backend, compress::DataParallel* others) {
  compress::QuantizeRequest request = quantize_request(flags);
  request.model = folder;
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  NMM_TRY(read_calibration(flags, request));
  Progress progress(stderr);
  NMM_ASSIGN(const auto summary, compress::quantize(request, backend, progress, {}, others));
  const std::string model = flags.request.model.string(), out = request.out.string();
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  const double bits_per_weight = summary.parameters == 0
                                     ? 0.0
                                     : 8.0 * static_cast<double>(summary.bytes_after) /
                                           static_cast<double>(summary.parameters);
  report.print("{} parameters, {:.1f} MB -> {:.1f} MB ({:.4f}), {:.3f} bits each\nwritten to {}\n",
               summary.parameters, megabytes(summary.bytes_before), megabytes(summary.bytes_after),
               megabytes(summary.bytes_after) / megabytes(summary.bytes_before), bits_per_weight,
               out);
  report.print(
      "what it costs in quality: neuronmm compare {} {} --data DIR, or neuronmm perplexity "
      "of both on the same text\n",
      model, out);
  NMM_TRY(report.write_json(
      Json{{"model", model},
           {"output", out},
           {"weights", io::format_text(request.formats.linear)},
           {"lm_head", io::format_text(request.formats.lm_head)},
           {"rounding", request.rounding == compress::Rounding::kGptq ? "gptq" : "nearest"},
           {"smoothing", request.smooth},
           {"calibration_tokens", summary.calibration_tokens},
           {"bits_per_weight", bits_per_weight},
           {"parameters", summary.parameters},
           {"bytes_before", summary.bytes_before},
           {"bytes_after", summary.bytes_after}}));
  return 0;
}

void add_text_flags(CLI::App* command, QuantizeFlags& flags) {
  command
      ->add_option("--calibration", flags.calibration,
                   "text that the model runs on, and that it is rounded to change least at; - is "
                   "standard input. Several are sampled evenly. NAME.jsonl has documents")
      ->allow_extra_args(false);
  command
      ->add_option("--calibration-tokens", flags.calibration_tokens,
                   "tokens to use in all, as many of each text, evenly spread over it")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--statistics", flags.request.statistics, kStatisticsHelp);
  command
      ->add_option("--rounding", flags.rounding,
                   "gptq: the codes with the least change of what a layer makes of the text "
                   "(default with a text); nearest: the code next to every weight (without one)")
      ->check(CLI::IsMember({"gptq", "nearest"}));
  command
      ->add_option("--smoothing", flags.smoothing,
                   "on: factors per channel, folded into norms and weights, make alike in size "
                   "what is rounded together, activations too (default with a text)")
      ->check(CLI::IsMember({"on", "off"}));
}

}  // namespace

void add_quantize(Program& program) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command =
      program.add(CommandGroup::kModels, "quantize",
                  "Round the weights of linear layers to 8, 6 or 4 bits, dense or compressed");
  command->add_option("MODEL_DIR", flags->request.model, "a Hugging Face model folder")->required();
  add_output_option(command, flags->request.out, "the new model folder")->required();
  command->add_option("--bits", flags->bits, "of each weight: 8, 6 or 4")
      ->check(CLI::IsMember({8, 6, 4}))
      ->capture_default_str();
  command
      ->add_option("--group", flags->group,
                   "4 bits: weights of a row that share a zero point: 16 (the default) or 32, "
                   "a quarter of a bit less and less exact")
      ->check(CLI::IsMember({16, 32}));
  command
      ->add_option("--lm-head-bits", flags->lm_head_bits,
                   "of the LM head: 8, 6 or 4; by default --bits, but 6 beside 4")
      ->check(CLI::IsMember({8, 6, 4}));
  add_text_flags(command, *flags);
  add_device_options(command, flags->device);
  add_json_option(command, flags->json);
  command->add_flag("--force", flags->request.force, "replace an existing output folder");
  command->add_flag("--dequantize", flags->dequantize, kDequantizeHelp);
  command->footer(
      "Rounded: attention and MLP matrices, factors, and the LM head (with the embedding table\n"
      "where the two are tied). Norms, biases and an untied embedding table stay as they are.\n"
      "To compress and round at once: compress --weights int8, int6 or int4.");
  command->parse_complete_callback([flags] {
    require_one_stdin("--calibration", flags->calibration);
    quantize_request(*flags);
  });
  program.set_run(
      command,
      [flags] {
        return run_on_floats(
            flags->request.model, flags->request.out,
            {.dequantize = flags->dequantize, .force = flags->request.force},
            [&](const std::filesystem::path& model) {
              return run_data_parallel(
                  model, flags->device,
                  [&](const ops::Backend& backend, compress::DataParallel* others) {
                    return quantize_with(*flags, model, backend, others);
                  });
            });
      },
      ProcessMode::kDataParallel);
}

}  // namespace neuronmm::apps
