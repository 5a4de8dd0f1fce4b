#include "compress/quantize_settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "compress/statistics/saved_statistics.h"

namespace neuronmm::compress {
namespace {

constexpr int kDefaultBits = 8;
// The bits for which layers learn their codes by default. Measured: docs/measurements/low_bits.md,
// "Codes that learn", where no row shows a gain for 6.
constexpr int kBitsThatGain = 4;
constexpr std::array<std::pair<Rounding, std::string_view>, 2> kRoundingNames = {
    {{Rounding::kNearest, "nearest"}, {Rounding::kGptq, "gptq"}}};

Status check_use_of_text(const QuantizeRequest& request, bool text, OptionNames names) {
  const auto name = [&](std::string_view keyword) { return option_name(names, keyword); };
  const bool gptq = request.rounding == Rounding::kGptq;
  if (!text && (gptq || request.smooth)) {
    return fail("{} needs {} or {}", gptq ? name("rounding") + " gptq" : name("smoothing"),
                name("calibration"), name("statistics"));
  }
  if (!text || gptq || request.smooth) return {};
  return fail("{} has no use beside {} nearest without {}",
              name(request.statistics.empty() ? "calibration" : "statistics"), name("rounding"),
              name("smoothing"));
}

// Returns what keeps layers from learning their codes, or an empty text.
std::string why_no_learning(const QuantizeRequest& request, OptionNames names) {
  const auto name = [&](std::string_view keyword) { return option_name(names, keyword); };
  if (request.formats.linear.bits == 8) {
    return fmt::format("is for {} 6 and 4, found 8; leave it out, or ask for fewer bits",
                       name("bits"));
  }
  if (!request.calibration) {
    return fmt::format("needs {}, from which layers learn{}", name("calibration"),
                       request.statistics.empty()
                           ? std::string()
                           : fmt::format("; {} are not enough", name("statistics")));
  }
  if (request.rounding == Rounding::kGptq) return {};
  return fmt::format("needs {} gptq, whose codes are a start", name("rounding"));
}

std::optional<CalibrationText> calibration_of(const QuantizeGiven& given) {
  if (given.calibration.empty()) return std::nullopt;
  const int64_t otherwise =
      std::max(SavedStatistics::tokens_asked(given.statistics).value_or(kShapeCalibrationTokens),
               given.reconstruct.value_or(Reconstruct()).tokens);
  CalibrationText text{.texts = {}, .max_tokens = given.calibration_tokens.value_or(otherwise)};
  for (const std::string& file : given.calibration) {
    text.texts.push_back(NamedText::of_file(file, {}));
  }
  return text;
}

}  // namespace

std::string_view rounding_name(Rounding rounding) {
  for (const auto& [known, name] : kRoundingNames) {
    if (known == rounding) return name;
  }
  return "";
}

Result<Rounding> parse_rounding(std::string_view name) {
  for (const auto& [rounding, known] : kRoundingNames) {
    if (known == name) return rounding;
  }
  return fail("rounding: expected nearest or gptq, found \"{}\"", name);
}

Result<QuantizeRequest> quantize_settings(const QuantizeGiven& given, OptionNames names) {
  const bool text = !given.calibration.empty() || !given.statistics.empty();
  NMM_ASSIGN(const WeightFormats formats,
             weight_formats(given.bits.value_or(kDefaultBits), given.group, given.lm_head_bits,
                            names, given.embedding_bits));
  QuantizeRequest request = {
      .model = given.model,
      .out = given.out,
      .formats = *formats,
      .rounding = given.rounding.value_or(text ? Rounding::kGptq : Rounding::kNearest),
      .smooth = given.smooth.value_or(text),
      .statistics = given.statistics,
      .force = given.force};
  NMM_TRY(check_use_of_text(request, text, names));
  if (given.calibration_tokens && given.calibration.empty()) {
    return fail("{} needs {}, the text that has the tokens",
                option_name(names, "calibration_tokens"), option_name(names, "calibration"));
  }
  request.calibration = calibration_of(given);
  request.reconstruct = given.reconstruct.value_or(Reconstruct{Reconstruct::Mode::kAuto, 0});
  NMM_TRY(check_learning(request, names));
  const bool worth = request.reconstruct.mode == Reconstruct::Mode::kTokens ||
                     request.formats.linear.bits == kBitsThatGain;
  if (!worth || !why_no_learning(request, names).empty()) request.reconstruct = {};
  return request;
}

Status check_learning(const QuantizeRequest& request, OptionNames names) {
  if (request.reconstruct.mode != Reconstruct::Mode::kTokens) return {};
  const std::string why_not = why_no_learning(request, names);
  if (why_not.empty()) return {};
  return fail("{} {} {}", option_name(names, "reconstruct"), request.reconstruct.tokens, why_not);
}

nlohmann::ordered_json settings_json(const QuantizeRequest& request) {
  nlohmann::ordered_json json = {{"bits", request.formats.linear.bits}};
  json["group"] = request.formats.linear.bits == 4
                      ? nlohmann::ordered_json(request.formats.linear.group)
                      : nlohmann::ordered_json();
  if (request.formats.lm_head.bits == 4) json["group"] = request.formats.lm_head.group;
  if (request.formats.embedding.bits == 4) json["group"] = request.formats.embedding.group;
  json["lm_head_bits"] = request.formats.lm_head.bits;
  json["embedding_bits"] = nullptr;
  if (request.formats.embedding_given) json["embedding_bits"] = request.formats.embedding.bits;
  json["rounding"] = rounding_name(request.rounding);
  json["smoothing"] = request.smooth;
  json["calibration"] = nlohmann::ordered_json::array();
  json["calibration_tokens"] = nullptr;
  if (request.calibration) {
    for (const NamedText& text : request.calibration->texts) {
      json["calibration"].push_back(std::filesystem::path(text.name).filename().string());
    }
    json["calibration_tokens"] = request.calibration->max_tokens;
  }
  json["statistics"] = !request.statistics.empty();
  json["reconstruct"] = reconstruct_text(request.reconstruct);
  return json;
}

}  // namespace neuronmm::compress
