#include "fit/fit.h"

namespace neuronmm::fit {
namespace {

Status check_given(const FitGiven& given, OptionNames names) {
  const auto name = [&](std::string_view keyword) { return option_name(names, keyword); };
  const Budget& budget = given.budget;
  if (!budget.bytes && !budget.decode && !budget.prefill && !budget.divergence) {
    return fail("{}, {}, {} or {}: a budget is needed", name("bytes"), name("decode"),
                name("prefill"), name("max_kl"));
  }
  if (given.out.empty() && !given.plan_only) {
    return fail("{} is needed (only {} needs none)", name("output"), name("plan"));
  }
  if (given.out.empty() && given.sensitivities.empty()) {
    return fail("{} is needed by {} without {}", name("sensitivities"), name("plan"),
                name("output"));
  }
  if (given.embedding_bits && given.simulated) {
    return fail("{}: a NeuronCore multiplies no rounded weights", name("embedding_bits"));
  }
  return {};
}

}  // namespace

Result<FitRequest> fit_settings(const FitGiven& given, OptionNames names) {
  NMM_TRY(check_given(given, names));
  // More tokens take longer and gain little (docs/measurements/fit.md).
  constexpr int64_t kTile = 128, kHostBlock = 32, kCalibrationTokens = 10240;
  FitRequest request = {.model = given.model,
                        .out = given.out,
                        .budget = given.budget,
                        .calibration = {},
                        .sensitivities = given.sensitivities,
                        .block = given.block.value_or(given.simulated ? kTile : kHostBlock),
                        .embedding_bits = given.embedding_bits,
                        .plan_only = given.plan_only,
                        .force = given.force};
  request.calibration.max_tokens = given.calibration_tokens.value_or(kCalibrationTokens);
  for (const std::string& file : given.calibration) {
    request.calibration.texts.push_back(compress::NamedText::of_file(file, {}));
  }
  if (request.sensitivities.empty()) {
    request.sensitivities = given.out;
    request.sensitivities += ".fit";
  }
  return request;
}

}  // namespace neuronmm::fit
