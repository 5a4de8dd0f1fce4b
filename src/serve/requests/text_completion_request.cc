#include "serve/requests/text_completion_request.h"

#include <algorithm>

#include "serve/requests/foreign_fields.h"

namespace neuronmm::serve {
namespace {

constexpr int64_t kDefaultTokens = 16;  // documented: the default of OpenAI's API

std::optional<std::vector<TokenId>> token_ids(const Json& list) {
  std::vector<TokenId> ids;
  if (!list.is_array() || list.empty()) return std::nullopt;
  for (const Json& id : list) {
    const auto known = as_token_id(id);
    if (!known) return std::nullopt;
    ids.push_back(*known);
  }
  return ids;
}

// Reads the field prompt: a string, token ids, or an array of several strings or arrays of ids.
std::vector<TextOrTokens> read_prompts(FieldReader& fields) {
  constexpr std::string_view kForms =
      "a string, token ids, or an array of strings or of arrays of ids";
  const Json* value = fields.find("prompt");
  if (value == nullptr) {
    fields.add_mismatch("prompt", kForms);
    return {};
  }
  if (auto prompt = text_or_tokens(*value)) return {*std::move(prompt)};
  std::vector<TextOrTokens> prompts;
  if (value->is_array()) {
    for (const Json& element : *value) {
      auto prompt = text_or_tokens(element);
      const bool alike = prompts.empty() || (prompt && prompt->index() == prompts[0].index());
      if (prompt && alike) prompts.push_back(*std::move(prompt));
    }
  }
  if (!prompts.empty() && prompts.size() == value->size() && prompts.size() <= kMostPrompts)
    return prompts;
  if (prompts.size() > kMostPrompts)
    fields.add_mismatch("prompt", fmt::format("at most {} prompts", kMostPrompts));
  else
    fields.add_mismatch("prompt", kForms);
  return {};
}

Json prompts_schema() {
  const Json id = component_schema("TokenId"), text = {{"type", "string"}};
  return {{"anyOf",
           {text, array_schema(id, 1, {}), array_schema(text, 1, kMostPrompts),
            array_schema(array_schema(id, 1, {}), 1, kMostPrompts)}}};
}

std::vector<RequestField> text_completion_fields() {
  using Field = RequestField;
  return {
      Field::other("prompt", prompts_schema(),
                   "A text, an array of token ids, or an array of several of either. The number of "
                   "prompts times n is at most 4096")
          .required(),
      answer_count_field(),
      token_limit_field("max_tokens",
                        "Largest number of tokens of the answer. -1 allows as many as fit into the "
                        "context, and 0 only reads the prompt")
          .by_default(kDefaultTokens),
      Field::integer("logprobs", 0, kMostLogprobs,
                     "If given, the response has the log probability of each token of the answer "
                     "and of this many of the likeliest tokens at its place. With echo, also those "
                     "of the prompt. By default none"),
      Field::integer("best_of", 1, kMostChoices, "Number of candidates. It must be equal to n"),
      Field::string("suffix",
                    "The text that follows the answer, which fills the place between prompt and "
                    "suffix. Only models with tokens for that can do so. By default there is none"),
  };
}

}  // namespace

std::optional<TextOrTokens> text_or_tokens(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (auto ids = token_ids(value)) return *std::move(ids);
  return std::nullopt;
}

const RequestTable& text_completion_table() {
  static const RequestTable table = RequestTable({generation_fields(), text_completion_fields()})
                                        .with_others(fields_of_other_servers());
  return table;
}

TextCompletionRequest read_text_completion_request(FieldReader& fields) {
  TextCompletionRequest request;
  request.prompts = read_prompts(fields);
  GenerationParameters& parameters = request.parameters;
  parameters = read_generation_parameters(fields);
  parameters.n = fields.integer_or_default("n");
  parameters.logprobs = fields.integer("logprobs");
  parameters.max_tokens = fields.integer("max_tokens");
  request.suffix = fields.string("suffix").value_or("");
  if (parameters.echo && !request.suffix.empty())
    fields.add_error("echo", "expected false beside \"suffix\"");
  if (const auto best_of = fields.integer("best_of"); best_of && *best_of != parameters.n)
    fields.add_error("best_of", "not supported: expected the same as \"n\" or nothing");
  if (std::ssize(request.prompts) * parameters.n > kMostAnswers)
    fields.add_error("n", fmt::format("expected at most {} answers, found {} prompts with {} each",
                                      kMostAnswers, request.prompts.size(), parameters.n));
  parameters.unknown_fields = unknown_fields(fields);
  return request;
}

ApiResult<TextCompletionRequest> parse_text_completion_request(std::string_view body) {
  return read_body(body, text_completion_table(), read_text_completion_request);
}

}  // namespace neuronmm::serve
