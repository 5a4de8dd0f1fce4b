#include "serve/requests/sampling_fields.h"

#include <charconv>
#include <cmath>

namespace neuronmm::serve {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr size_t kMostBiases = 10'000;
constexpr double kMostBias = 100.0;

std::optional<TokenId> parse_id(std::string_view text) {
  TokenId id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  const bool good =
      error == std::errc() && end == text.data() + text.size() && !text.starts_with('-');
  return good ? std::optional(id) : std::nullopt;
}

// Reads the field logit_bias, an object such as {"50256": -100}.
std::vector<model::LogitBias> read_logit_bias(FieldReader& fields) {
  std::vector<model::LogitBias> biases;
  const Json* object = fields.object("logit_bias");
  if (object == nullptr) return biases;
  if (object->size() > kMostBiases)
    fields.add_mismatch("logit_bias", fmt::format("at most {} token ids", kMostBiases));
  for (const auto& [key, value] : object->items()) {
    const auto id = parse_id(key);
    const double bias = value.is_number() ? value.get<double>() : NAN;
    if (!id || !(std::abs(bias) <= kMostBias)) {
      fields.add_error("logit_bias",
                       fmt::format("expected token ids with numbers from -100 to 100, found {}: {}",
                                   describe(key), describe(value)));
      return {};
    }
    biases.push_back({*id, bias});
  }
  return biases;
}

}  // namespace

std::vector<RequestField> sampling_fields() {
  const Json bias = {{"type", "number"}, {"minimum", -kMostBias}, {"maximum", kMostBias}};
  const Json biases = {{"type", {"object", "null"}},
                       {"maxProperties", kMostBiases},
                       {"propertyNames", {{"pattern", "^[0-9]{1,9}$"}}},
                       {"additionalProperties", bias}};
  return {
      RequestField::number(
          "temperature", 0.0, 100.0,
          "Divides the logits before a token is drawn; 0 always takes the likeliest "
          "token. By default that of the model's generation_config.json, else 1"),
      RequestField::number(
          "top_p", 0.0, 1.0,
          "Draws only from the likeliest tokens whose probabilities add up to this; 1 is "
          "no limit. By default that of the model's generation_config.json, else 1"),
      RequestField::integer("top_k", -1, kMostTokens,
                            "Draws only from this many likeliest tokens; -1 and 0 are no limit. By "
                            "default that of the model's generation_config.json, else 0"),
      RequestField::number(
          "min_p", 0.0, 1.0,
          "Leaves out tokens whose probability is less than this share of the likeliest token's; 0 "
          "is no limit. By default that of the model's generation_config.json, else 0"),
      RequestField::number(
          "repetition_penalty", 0.01, 100.0,
          "Makes tokens of the prompt and the answer less likely if above 1 and likelier "
          "if below. By default that of the model's generation_config.json, else 1"),
      RequestField::number("presence_penalty", -2.0, 2.0,
                           "Subtracted from the logit of every token that the answer already has")
          .by_default(0.0),
      RequestField::number(
          "frequency_penalty", -2.0, 2.0,
          "Subtracted from the logit of a token once for each time that the answer already has it")
          .by_default(0.0),
      RequestField::other("logit_bias", biases,
                          "Numbers that are added to the logits of tokens, by token id"),
      RequestField::integer(
          "seed", INT64_MIN, INT64_MAX,
          "Seed of the random draws: equal requests with equal seeds get equal answers. "
          "By default random"),
  };
}

void read_sampling(FieldReader& fields, GenerationParameters& parameters) {
  parameters.temperature = fields.number("temperature");
  parameters.top_p = fields.number("top_p");
  parameters.top_k = fields.integer("top_k");
  if (parameters.top_k == -1) parameters.top_k = 0;  // vLLM writes -1 for all tokens
  parameters.min_p = fields.number("min_p");
  parameters.repetition_penalty = fields.number("repetition_penalty");
  parameters.presence_penalty = fields.number_or_default("presence_penalty");
  parameters.frequency_penalty = fields.number_or_default("frequency_penalty");
  parameters.logit_bias = read_logit_bias(fields);
  const auto seed = fields.integer("seed");
  if (seed) parameters.seed = static_cast<uint64_t>(*seed);
}

}  // namespace neuronmm::serve
