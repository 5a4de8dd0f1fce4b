#include "serve/requests/generation_parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace neuronmm::serve {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr size_t kMostUnknownFields = 16, kMostUnknownBytes = 64, kMostSaltBytes = 1024,
                 kMostBiases = 10'000;
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

std::vector<std::string> read_stop(FieldReader& fields) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return {};
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  const auto is_stop = [](const Json& text) {
    return text.is_string() && text.get_ref<const std::string&>().size() <= kMostStopBytes;
  };
  if (list.size() > kMostStopStrings || !std::ranges::all_of(list, is_stop)) {
    fields.add_mismatch("stop", fmt::format("a string or at most {} of them, of at most {} bytes",
                                            kMostStopStrings, kMostStopBytes));
    return {};
  }
  std::vector<std::string> stops = list.get<std::vector<std::string>>();
  std::erase(stops, "");  // an empty text stops nothing, as in llama.cpp
  return stops;
}

void read_stream_options(FieldReader& fields, GenerationParameters& parameters) {
  auto options = fields.inner("stream_options");
  if (!options) return;
  parameters.include_usage = options->boolean_or_default("include_usage");
  parameters.continuous_usage = options->boolean_or_default("continuous_usage_stats");
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

void read_stop_conditions(FieldReader& fields, GenerationParameters& parameters) {
  parameters.stop = read_stop(fields);
  parameters.stop_token_ids = fields.token_ids("stop_token_ids");
  parameters.include_stop_str_in_output = fields.boolean_or_default("include_stop_str_in_output");
  parameters.ignore_eos = fields.boolean_or_default("ignore_eos");
  parameters.min_tokens = fields.integer_or_default("min_tokens");
}

using Field = RequestField;

std::vector<Field> sampling_fields() {
  const Json bias = {{"type", "number"}, {"minimum", -kMostBias}, {"maximum", kMostBias}};
  const Json biases = {{"type", {"object", "null"}},
                       {"maxProperties", kMostBiases},
                       {"propertyNames", {{"pattern", "^[0-9]{1,9}$"}}},
                       {"additionalProperties", bias}};
  return {
      Field::number("temperature", 0.0, 100.0, "0: always the likeliest token"),
      Field::number("top_p", 0.0, 1.0, "Draw from the likeliest tokens with this probability"),
      Field::integer("top_k", -1, kMostTokens, "Draw from this many tokens; -1 and 0: all"),
      Field::number("min_p", 0.0, 1.0, "Leave out tokens less likely than this share of the best"),
      Field::number("repetition_penalty", 0.01, 100.0, "Above 1: repeat fewer tokens"),
      Field::number("presence_penalty", -2.0, 2.0, "Taken off the logits of tokens that occurred")
          .by_default(0.0),
      Field::number("frequency_penalty", -2.0, 2.0, "The same, as often as they occurred")
          .by_default(0.0),
      Field::other("logit_bias", biases, "Numbers by token id, added to the logits"),
      Field::integer("seed", INT64_MIN, INT64_MAX, "The same seed draws the same tokens"),
  };
}

std::vector<Field> stop_fields() {
  const Json text = {{"type", "string"}, {"maxLength", kMostStopBytes}};
  const Json stop = {{"anyOf", {text, stop_strings_schema(), {{"type", "null"}}}}};
  return {
      Field::other("stop", stop, "The answer ends before any of these; an empty one is left out"),
      Field::token_ids("stop_token_ids", "The answer ends before any of these"),
      Field::boolean("include_stop_str_in_output", "The text ends with the stop string")
          .by_default(false),
      Field::boolean("ignore_eos", "Go on after the model's own end").by_default(false),
      Field::integer("min_tokens", 0, kMostTokens,
                     "No end before this many; at most the tokens that may be made")
          .by_default(0),
  };
}

std::vector<Field> output_fields() {
  return {
      Field::string("model", kModelMeaning),
      Field::boolean("stream", "Answer with server-sent events").by_default(false),
      Field::object(
          "stream_options",
          {Field::boolean("include_usage", "The last chunk counts the tokens").by_default(false),
           Field::boolean("continuous_usage_stats", "All chunks count the tokens")
               .by_default(false),
           Field::ignored({"include_obfuscation"}).front()},
          "Without effect where there is no stream"),
      Field::boolean("skip_special_tokens", "Special tokens have no text").by_default(true),
      Field::boolean("return_token_ids", "Also tell the ids of the tokens").by_default(false),
      Field::boolean("echo", "The answer begins with the prompt").by_default(false),
      Field::boolean("add_special_tokens", "The prompt begins with the tokenizer's special tokens"),
      Field::string("cache_salt", "Only requests of one salt share a cached prefix")
          .at_most_bytes(kMostSaltBytes),
      Field::integer("priority", INT64_MIN, INT64_MAX, "Smaller is earlier").by_default(0),
  };
}

// Returns the fields that this server refuses: they would change the answer, so ignoring them would
// mislead the client.
std::vector<Field> unsupported_fields() {
  std::vector<Field> fields = {Field::not_supported("n_predict", "expected max_tokens instead")};
  for (const char* name :
       {"use_beam_search", "bad_words", "allowed_token_ids", "logprob_token_ids", "prompt_logprobs",
        "truncate_prompt_tokens", "return_tokens_as_token_ids"})
    fields.push_back(Field::not_supported(name, "this server does not know how"));
  return fields;
}

}  // namespace

Json stop_strings_schema() {
  return array_schema({{"type", "string"}, {"maxLength", kMostStopBytes}}, {}, kMostStopStrings);
}

std::vector<RequestField> generation_fields() {
  std::vector<RequestField> all = sampling_fields();
  for (const auto& fields :
       {stop_fields(), output_fields(), response_format_fields(), unsupported_fields(),
        Field::ignored({"user", "metadata", "store", "service_tier", "prompt_cache_key",
                        "prompt_cache_retention", "safety_identifier", "verbosity", "request_id",
                        "session_id", "length_penalty", "spaces_between_special_tokens",
                        "guided_decoding_backend"})})
    all.insert(all.end(), fields.begin(), fields.end());
  return all;
}

RequestField token_limit_field(const char* name, const char* meaning) {
  return Field::integer(name, -1, INT64_MAX, meaning);
}

RequestField answer_count_field() {
  return Field::integer("n", 1, kMostChoices, "Answers to each prompt").by_default(1);
}

RequestField single_answer_field() { return Field::other("n", {{"enum", {1, nullptr}}}); }

std::optional<int64_t> read_token_limit(FieldReader& fields, const std::string& key) {
  const auto limit = fields.integer(key);
  return limit == -1 ? std::nullopt : limit;
}

void expect_single_answer(FieldReader& fields, std::string_view why) {
  const Json* count = fields.find("n");
  if (count != nullptr && as_integer(*count) != 1)
    fields.add_mismatch("n", fmt::format("1: {}", why));
}

GenerationParameters read_generation_parameters(FieldReader& fields) {
  GenerationParameters parameters;
  parameters.model = fields.string("model").value_or("");
  read_sampling(fields, parameters);
  read_stop_conditions(fields, parameters);
  parameters.stream = fields.boolean_or_default("stream");
  read_stream_options(fields, parameters);
  parameters.response_format = read_response_format(fields);
  parameters.skip_special_tokens = fields.boolean_or_default("skip_special_tokens");
  parameters.return_token_ids = fields.boolean_or_default("return_token_ids");
  parameters.echo = fields.boolean_or_default("echo");
  parameters.add_special_tokens = fields.boolean("add_special_tokens");
  parameters.cache_salt = fields.string("cache_salt").value_or("");
  parameters.priority = fields.integer_or_default("priority");
  return parameters;
}

std::vector<std::string> unknown_fields(const FieldReader& fields,
                                        const std::vector<std::string>& ignored) {
  std::vector<std::string> names = fields.unknown();
  names.insert(names.end(), ignored.begin(), ignored.end());
  if (names.size() > kMostUnknownFields) names.resize(kMostUnknownFields);
  for (std::string& name : names) name.resize(std::min(name.size(), kMostUnknownBytes));
  return names;
}

}  // namespace neuronmm::serve
