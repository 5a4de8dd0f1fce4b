#include "serve/requests/sampling_fields.h"

#include <algorithm>
#include <cmath>

#include "serve/requests/sampler_order.h"

namespace neuronmm::serve {
namespace {

// Bounds of what one request may ask for. Assumed: no useful value reaches them.
constexpr int64_t kMostCountedTokens = int64_t{1} << 30;
constexpr size_t kMostBiases = 10'000, kMostBreakers = 64, kMostBreakerTextBytes = 1024;
constexpr double kMostBias = 100.0;  // documented: the limit of OpenAI's API
constexpr int64_t kRandomSeed = -1;

// Reads the field logit_bias, an object such as {"50256": -100}.
std::vector<model::LogitBias> read_logit_bias(FieldReader& fields) {
  std::vector<model::LogitBias> biases;
  const Json* object = fields.object("logit_bias");
  if (object == nullptr) return biases;
  if (object->size() > kMostBiases)
    fields.add_mismatch("logit_bias", fmt::format("at most {} token ids", kMostBiases));
  for (const auto& [key, value] : object->items()) {
    const auto id = token_id_of_digits(key);
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

bool is_list_of_strings(const Json& value) {
  return value.is_array() &&
         std::ranges::all_of(value, [](const Json& text) { return text.is_string(); });
}

// Reads an array of texts, or the text of one. Clients of text-generation-webui send the text,
// without the brackets: "\"\\n\", \":\"". Any other text is a breaker itself.
std::vector<std::string> read_breakers(FieldReader& fields) {
  const char* const key = "dry_sequence_breakers";
  const Json* found = fields.find(key);
  Json value = found == nullptr ? Json(GenerationParameters().dry_sequence_breakers) : *found;
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    if (text.size() > kMostBreakerTextBytes)
      fields.add_mismatch(key, fmt::format("at most {} bytes", kMostBreakerTextBytes));
    const bool has_brackets = text.starts_with('[');
    const auto list = parse_json_text(has_brackets ? text : fmt::format("[{}]", text), key);
    value = list.ok() && is_list_of_strings(*list) ? *list : Json::array({text});
  } else if (!is_list_of_strings(value) || value.size() > kMostBreakers) {
    fields.add_mismatch(key, fmt::format("at most {} strings", kMostBreakers));
    return {};
  }
  auto breakers = value.get<std::vector<std::string>>();
  std::erase(breakers, "");
  if (breakers.size() > kMostBreakers) breakers.resize(kMostBreakers);
  return breakers;
}

// A base below 1 stands for the default, as in llama.cpp.
void read_dry(FieldReader& fields, GenerationParameters& parameters) {
  model::DryOptions& dry = parameters.dry;
  dry.multiplier = fields.number_or_default("dry_multiplier");
  if (const double base = fields.number_or_default("dry_base"); base >= 1.0) dry.base = base;
  dry.allowed_length = fields.integer_or_default("dry_allowed_length");
  dry.last_n = fields.integer_or_default("dry_penalty_last_n");
  parameters.dry_sequence_breakers = read_breakers(fields);
}

std::vector<RequestField> dry_fields() {
  using Field = RequestField;
  const Json text = {{"type", "string"}};
  const Json breakers = {{"anyOf",
                          {array_schema(text, {}, kMostBreakers),
                           {{"type", {"string", "null"}}, {"maxLength", kMostBreakerTextBytes}}}}};
  return {
      Field::number("dry_multiplier", 0.0, 100.0,
                    "Strength of the penalty for tokens that continue a repetition of the text so "
                    "far (DRY); 0 turns it off")
          .by_default(0.0),
      Field::number("dry_base", 0.0, 100.0,
                    "Factor by which the DRY penalty grows with each token of the repetition. A "
                    "value below 1 stands for the default")
          .by_default(1.75),
      Field::integer("dry_allowed_length", 0, kMostCountedTokens,
                     "Length in tokens of the shortest repetition that DRY penalizes")
          .by_default(2),
      Field::integer("dry_penalty_last_n", -1, kMostCountedTokens,
                     "Number of tokens in which DRY looks for repetitions; -1 means the whole "
                     "text, and 0 turns it off")
          .by_default(-1),
      Field::other("dry_sequence_breakers", breakers,
                   "Texts at which repetitions end, of which the first 40 bytes count. By default "
                   "a line end, a colon, a quotation mark and an asterisk"),
  };
}

// Returns fields with the names and meanings that they have in llama.cpp.
std::vector<RequestField> llama_sampling_fields() {
  using Field = RequestField;
  return {
      samplers_field(),
      Field::number("repeat_penalty", 0.01, 100.0,
                    "Like repetition_penalty, for the last repeat_last_n tokens only. If it is "
                    "given, the repetition_penalty of generation_config.json does not count"),
      Field::integer("repeat_last_n", -1, kMostCountedTokens,
                     "Number of tokens that repeat_penalty looks at; -1 means all, and 0 turns it "
                     "off")
          .by_default(64),
      Field::number("typical_p", 0.0, 1.0,
                    "Draws only from the tokens whose information is nearest to its expectation, "
                    "until their probabilities add up to this; 1 is no limit")
          .by_default(1.0),
      Field::number("xtc_probability", 0.0, 1.0,
                    "Probability with which the likely tokens are left out, except for the least "
                    "likely of them (XTC)")
          .by_default(0.0),
      Field::number("xtc_threshold", 0.0, 1.0,
                    "Probability from which on XTC calls a token likely; above 0.5 it has no "
                    "effect")
          .by_default(0.1),
  };
}

}  // namespace

std::vector<RequestField> sampling_fields() {
  const Json bias = {{"type", "number"}, {"minimum", -kMostBias}, {"maximum", kMostBias}};
  const Json biases = {{"type", {"object", "null"}},
                       {"maxProperties", kMostBiases},
                       {"propertyNames", {{"pattern", "^[0-9]{1,9}$"}}},
                       {"additionalProperties", bias}};
  std::vector<RequestField> fields = {
      RequestField::number(
          "temperature", 0.0, 100.0,
          "Divides the logits before a token is drawn; 0 always takes the likeliest "
          "token. By default that of the model's generation_config.json, else 1"),
      RequestField::number(
          "top_p", 0.0, 1.0,
          "Draws only from the likeliest tokens whose probabilities add up to this; 1 is "
          "no limit. By default that of the model's generation_config.json, else 1"),
      RequestField::integer("top_k", -1, kMostCountedTokens,
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
          "-1, as no seed, stands for a random one"),
  };
  for (const auto& more : {llama_sampling_fields(), dry_fields()})
    fields.insert(fields.end(), more.begin(), more.end());
  return fields;
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
  if (seed && *seed != kRandomSeed) parameters.seed = static_cast<uint64_t>(*seed);
  parameters.repeat_penalty = fields.number("repeat_penalty");
  parameters.repeat_last_n = fields.integer_or_default("repeat_last_n");
  parameters.typical_p = fields.number_or_default("typical_p");
  parameters.xtc_probability = fields.number_or_default("xtc_probability");
  parameters.xtc_threshold = fields.number_or_default("xtc_threshold");
  read_dry(fields, parameters);
  read_samplers(fields, parameters);
}

}  // namespace neuronmm::serve
