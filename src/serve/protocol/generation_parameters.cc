#include "serve/protocol/generation_parameters.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace neuronmm::serve {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr int64_t kLargestId = std::numeric_limits<TokenId>::max();
constexpr size_t kMostUnknownFields = 16, kMostUnknownBytes = 64, kMostSaltBytes = 1024,
                 kMostBiases = 10'000;

std::optional<TokenId> parse_id(std::string_view text) {
  TokenId id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  const bool good =
      error == std::errc() && end == text.data() + text.size() && !text.starts_with('-');
  return good ? std::optional(id) : std::nullopt;
}

// {"50256": -100}
std::vector<model::LogitBias> read_logit_bias(FieldReader& fields) {
  std::vector<model::LogitBias> biases;
  const Json* object = fields.object("logit_bias");
  if (object == nullptr) return biases;
  if (object->size() > kMostBiases)
    fields.wrong("logit_bias", fmt::format("at most {} token ids", kMostBiases));
  for (const auto& [key, value] : object->items()) {
    const auto id = parse_id(key);
    const double bias = value.is_number() ? value.get<double>() : 101.0;
    if (!id || !(bias >= -100.0 && bias <= 100.0)) {
      fields.fail("logit_bias",
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
    fields.wrong("stop", fmt::format("a string or at most {} of them, of at most {} bytes",
                                     kMostStopStrings, kMostStopBytes));
    return {};
  }
  std::vector<std::string> stops = list.get<std::vector<std::string>>();
  std::erase(stops, "");  // stops at nothing, as in llama.cpp
  return stops;
}

void read_stream_options(FieldReader& fields, GenerationParameters& parameters) {
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  FieldReader reader(*options, "stream_options.", fields.problem());
  parameters.include_usage = reader.boolean("include_usage").value_or(false);
  parameters.continuous_usage = reader.boolean("continuous_usage_stats").value_or(false);
  reader.ignore({"include_obfuscation"});
}

void read_sampling(FieldReader& fields, GenerationParameters& parameters) {
  parameters.temperature = fields.number("temperature", 0.0, 100.0);
  parameters.top_p = fields.number("top_p", 0.0, 1.0);
  parameters.top_k = fields.integer("top_k", -1, kMostTokens);
  if (parameters.top_k == -1) parameters.top_k = 0;  // vLLM's "all"
  parameters.min_p = fields.number("min_p", 0.0, 1.0);
  parameters.repetition_penalty = fields.number("repetition_penalty", 0.01, 100.0);
  parameters.presence_penalty = fields.number("presence_penalty", -2.0, 2.0).value_or(0.0);
  parameters.frequency_penalty = fields.number("frequency_penalty", -2.0, 2.0).value_or(0.0);
  parameters.logit_bias = read_logit_bias(fields);
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  if (seed) parameters.seed = static_cast<uint64_t>(*seed);
}

void read_end(FieldReader& fields, GenerationParameters& parameters) {
  parameters.stop = read_stop(fields);
  for (const int64_t id : fields.integers("stop_token_ids", kLargestId))
    parameters.stop_token_ids.push_back(static_cast<TokenId>(id));
  parameters.include_stop_str_in_output =
      fields.boolean("include_stop_str_in_output").value_or(false);
  parameters.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  parameters.min_tokens = fields.integer("min_tokens", 0, kMostTokens).value_or(0);
}

// Fields that would change the answer, which must not be lost silently, and those that would not.
void read_other_fields(FieldReader& fields) {
  for (const char* key :
       {"use_beam_search", "bad_words", "allowed_token_ids", "logprob_token_ids", "prompt_logprobs",
        "truncate_prompt_tokens", "return_tokens_as_token_ids"})
    fields.refuse(key, "this server does not know how");
  fields.refuse("n_predict", "expected max_tokens instead");
  fields.ignore({"user", "metadata", "store", "service_tier", "prompt_cache_key",
                 "prompt_cache_retention", "safety_identifier", "verbosity", "request_id",
                 "session_id", "length_penalty", "spaces_between_special_tokens",
                 "guided_decoding_backend"});
}

}  // namespace

std::optional<int64_t> read_token_limit(FieldReader& fields, const std::string& key) {
  const auto limit = fields.integer(key, -1, INT64_MAX);
  return limit == -1 ? std::nullopt : limit;
}

GenerationParameters read_generation_parameters(FieldReader& fields) {
  GenerationParameters parameters;
  parameters.model = fields.string("model").value_or("");
  parameters.n = fields.integer("n", 1, kMostChoices).value_or(1);
  read_sampling(fields, parameters);
  read_end(fields, parameters);
  parameters.stream = fields.boolean("stream").value_or(false);
  read_stream_options(fields, parameters);
  parameters.response_format = read_response_format(fields);
  parameters.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  parameters.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  parameters.echo = fields.boolean("echo").value_or(false);
  parameters.add_special_tokens = fields.boolean("add_special_tokens");
  parameters.cache_salt = fields.string("cache_salt").value_or("");
  if (parameters.cache_salt.size() > kMostSaltBytes)
    fields.wrong("cache_salt", fmt::format("a string of at most {} bytes", kMostSaltBytes));
  parameters.priority = fields.integer("priority", INT64_MIN, INT64_MAX).value_or(0);
  read_other_fields(fields);
  return parameters;
}

std::vector<std::string> unknown_fields(const FieldReader& fields,
                                        const std::vector<std::string>& left_out) {
  std::vector<std::string> names = fields.unknown();
  names.insert(names.end(), left_out.begin(), left_out.end());
  if (names.size() > kMostUnknownFields) names.resize(kMostUnknownFields);
  for (std::string& name : names) name.resize(std::min(name.size(), kMostUnknownBytes));
  return names;
}

}  // namespace neuronmm::serve
