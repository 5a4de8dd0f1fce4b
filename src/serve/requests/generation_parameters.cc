#include "serve/requests/generation_parameters.h"

#include <algorithm>

#include "serve/requests/sampling_fields.h"

namespace neuronmm::serve {
namespace {

// Bounds of what one request may ask for, and of what a log line and a header tell of its unknown
// fields. Assumed.
constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr size_t kMostUnknownFields = 16, kMostUnknownBytes = 64, kMostSaltBytes = 1024,
                 kMostStopTokens = 1024;

bool is_stop_text(const Json& text) {
  return text.is_string() && text.get_ref<const std::string&>().size() <= kMostStopBytes;
}

// Appends the texts of the field "stop", a text or several, and of "stop_sequences", which other
// servers call it. An empty text stops nothing, as in llama.cpp.
std::vector<std::string> read_stop(FieldReader& fields) {
  std::vector<std::string> stops;
  for (const char* key : {"stop", "stop_sequences"}) {
    const Json* stop = fields.find(key);
    if (stop == nullptr) continue;
    const Json list = stop->is_array() ? *stop : Json::array({*stop});
    if (list.size() > kMostStopStrings || !std::ranges::all_of(list, is_stop_text)) {
      fields.add_mismatch(key, fmt::format("a string or at most {} of them, of at most {} bytes",
                                           kMostStopStrings, kMostStopBytes));
      return {};
    }
    for (const Json& text : list) stops.push_back(text.get<std::string>());
  }
  std::erase(stops, "");
  return stops;
}

void read_stream_options(FieldReader& fields, GenerationParameters& parameters) {
  auto options = fields.inner("stream_options");
  if (!options) return;
  parameters.include_usage = options->boolean_or_default("include_usage");
  parameters.continuous_usage = options->boolean_or_default("continuous_usage_stats");
}

void read_stop_conditions(FieldReader& fields, GenerationParameters& parameters) {
  parameters.stop = read_stop(fields);
  parameters.stop_token_ids = fields.token_ids("stop_token_ids");
  // Every token of the answer is compared with each of them.
  if (parameters.stop_token_ids.size() > kMostStopTokens)
    fields.add_mismatch("stop_token_ids", fmt::format("at most {} token ids", kMostStopTokens));
  parameters.include_stop_str_in_output = fields.boolean_or_default("include_stop_str_in_output");
  parameters.ignore_eos = fields.boolean_or_default("ignore_eos");
  parameters.min_tokens = fields.integer_or_default("min_tokens");
}

std::vector<RequestField> stop_fields() {
  const Json text = {{"type", "string"}, {"maxLength", kMostStopBytes}};
  const Json stop = {{"anyOf", {text, stop_strings_schema(), {{"type", "null"}}}}};
  return {
      RequestField::other(
          "stop", stop,
          "A text or several: the answer ends before the first place where one of them "
          "occurs. Empty texts have no effect"),
      RequestField::other("stop_sequences", stop, "More texts that end the answer, as stop"),
      RequestField::token_ids(
          "stop_token_ids",
          "Ids of tokens that end the answer, in addition to the model's own. At "
          "most 1024"),
      RequestField::boolean("include_stop_str_in_output",
                            "Whether the text of the answer includes the stop string that ended it")
          .by_default(false),
      RequestField::boolean(
          "ignore_eos",
          "Whether the answer continues after the tokens with which the model ends it")
          .by_default(false),
      RequestField::integer(
          "min_tokens", 0, kMostTokens,
          "Smallest number of tokens of the answer. It must not exceed the largest number")
          .by_default(0),
  };
}

std::vector<RequestField> output_fields() {
  return {
      RequestField::string("model", kModelMeaning),
      RequestField::boolean("stream", "Whether the response is a stream of server-sent events")
          .by_default(false),
      RequestField::object(
          "stream_options",
          {RequestField::boolean(
               "include_usage",
               "Whether a last chunk has the numbers of tokens of prompt and answer")
               .by_default(false),
           RequestField::boolean("continuous_usage_stats",
                                 "Whether every chunk has the numbers of tokens so far")
               .by_default(false),
           RequestField::ignored({"include_obfuscation"}).front()},
          "Settings of the stream; they have no effect if the response is not a stream"),
      RequestField::boolean("skip_special_tokens",
                            "Whether special tokens are left out of the text of the answer")
          .by_default(true),
      RequestField::boolean(
          "return_token_ids",
          "Whether the response has the token ids of prompt and answer in addition to the text")
          .by_default(false),
      RequestField::boolean(
          "echo",
          "Whether the text of the response begins with the prompt; in chats, with the "
          "last message if the answer continues it")
          .by_default(false),
      RequestField::boolean(
          "add_special_tokens",
          "Whether the tokenizer's special tokens, such as one for the beginning of a "
          "text, are put before the prompt. By default false for chats, whose template "
          "writes them, and else true"),
      cache_salt_field(),
      priority_field(),
  };
}

}  // namespace

Json stop_strings_schema() {
  return array_schema({{"type", "string"}, {"maxLength", kMostStopBytes}}, {}, kMostStopStrings);
}

std::vector<RequestField> generation_fields() {
  std::vector<RequestField> all = sampling_fields();
  for (const auto& fields : {stop_fields(), output_fields(), response_format_fields()})
    all.insert(all.end(), fields.begin(), fields.end());
  return all;
}

RequestField token_limit_field(const char* name, const char* meaning) {
  return RequestField::integer(name, kNoTokenLimit, INT64_MAX, meaning);
}

RequestField answer_count_field() {
  return RequestField::integer("n", 1, kMostChoices, "Number of answers to each prompt")
      .by_default(1);
}

RequestField cache_salt_field() {
  return RequestField::string(
             "cache_salt",
             "Requests share the cached beginning of a prompt only if their salts are equal. By "
             "default empty")
      .at_most_bytes(kMostSaltBytes);
}

RequestField priority_field() {
  return RequestField::integer("priority", INT64_MIN, INT64_MAX,
                               "Requests with a smaller number are computed earlier. It has no "
                               "effect unless the server allows it (--allow-priority)")
      .by_default(0);
}

RequestField single_answer_field() {
  return RequestField::other("n", {{"enum", {1, nullptr}}},
                             "Number of answers; this API gives one");
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
