#include "serve/protocol/llama_cpp_settings.h"

#include <algorithm>

namespace neuronmm::serve {
namespace {

// Documented: llama.cpp's common/common.h.
constexpr double kTemperature = 0.8, kTopP = 0.95, kMinP = 0.05;
constexpr int64_t kTopK = 40;

const std::vector<std::string>& default_samplers() {
  static const std::vector<std::string> kNames = {
      "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"};
  return kNames;
}

template <typename T>
void set_default(std::optional<T>& field, const std::optional<T>& recommended, T value) {
  if (!field && !recommended) field = value;
}

Json bias_list(const std::vector<model::LogitBias>& biases) {
  Json list = Json::array();
  for (const model::LogitBias& bias : biases)
    list.push_back({{"bias", bias.bias}, {"token", bias.id}});
  return list;
}

}  // namespace

void fill_llama_cpp_defaults(const io::GenerationConfig& generation, LlamaCppRequest& request) {
  GenerationParameters& fields = request.parameters;
  set_default(fields.temperature, generation.temperature, kTemperature);
  set_default(fields.top_k, generation.top_k, kTopK);
  set_default(fields.top_p, generation.top_p, kTopP);
  set_default(fields.min_p, generation.min_p, kMinP);
  if (!fields.samplers) fields.temperature_last = true;
}

// Samplers that this server lacks have the values that switch them off.
Json llama_cpp_settings_json(const ServedModel& model, const LlamaCppRequest& request,
                             const Request& submission) {
  const GenerationParameters& fields = request.parameters;
  const model::SamplingOptions& sampling = submission.sampling;
  const bool has_grammar = fields.response_format.kind == ResponseFormat::Kind::kGrammar;
  const int64_t limit = submission.max_new_tokens.value_or(kNoTokenLimit);
  return {{"n_ctx", model.context_tokens},
          {"model", model.names.front()},
          {"seed", sampling.seed},
          {"temperature", sampling.temperature},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"repeat_penalty", sampling.repeat_penalty},
          {"presence_penalty", sampling.presence_penalty},
          {"frequency_penalty", sampling.frequency_penalty},
          {"repeat_last_n", sampling.repeat_last_n},
          {"typical_p", sampling.typical_p},
          {"top_n_sigma", -1.0},
          {"xtc_probability", sampling.xtc_probability},
          {"xtc_threshold", sampling.xtc_threshold},
          {"dry_multiplier", sampling.dry.multiplier},
          {"dry_base", sampling.dry.base},
          {"dry_allowed_length", sampling.dry.allowed_length},
          {"dry_penalty_last_n", sampling.dry.last_n},
          {"dry_sequence_breakers", fields.dry_sequence_breakers},
          {"dynatemp_range", 0.0},
          {"dynatemp_exponent", 1.0},
          {"mirostat", 0},
          {"mirostat_tau", 5.0},
          {"mirostat_eta", 0.1},
          {"stop", fields.stop},
          {"max_tokens", limit},
          {"n_predict", limit},
          {"n_keep", request.n_keep},
          {"n_discard", request.n_discard},
          {"ignore_eos", fields.ignore_eos},
          {"stream", fields.stream},
          {"logit_bias", bias_list(sampling.logit_bias)},
          {"n_probs", fields.logprobs.value_or(0)},
          {"min_keep", request.min_keep},
          {"grammar", has_grammar ? fields.response_format.pattern : ""},
          {"grammar_lazy", false},
          {"grammar_triggers", Json::array()},
          {"preserved_tokens", Json::array()},
          {"samplers", fields.samplers.value_or(default_samplers())},
          {"timings_per_token", request.timings_per_token},
          {"post_sampling_probs", false},
          {"lora", Json::array()}};
}

}  // namespace neuronmm::serve
