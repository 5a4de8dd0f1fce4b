#include "serve/requests/llama_cpp_request.h"

#include <algorithm>
#include <set>
#include <utility>

#include "serve/requests/foreign_fields.h"
#include "serve/requests/llama_cpp_values.h"
#include "serve/requests/text_completion_request.h"

namespace neuronmm::serve {
namespace {

constexpr int64_t kMostOfInt32 = INT32_MAX;
constexpr size_t kMostResponseFields = 100;

// Returns a prompt, which may be in an object {"prompt_string": ...}.
std::optional<MixedText> one_mixed_prompt(const Json& value) {
  const Json* prompt = &value;
  if (value.is_object()) {
    const auto data = value.find("multimodal_data"), text = value.find("prompt_string");
    const bool has_data = data != value.end() && !data->is_null() && !data->empty();
    if (has_data || text == value.end()) return std::nullopt;
    prompt = &*text;
  }
  return prompt->is_array() && prompt->empty() ? std::nullopt : mixed_text(*prompt);
}

// Reads one prompt or several. An array that has a number is one prompt.
std::vector<MixedText> read_mixed_prompts(FieldReader& fields) {
  constexpr const char* kForms =
      "a string, an array of strings and token ids, an object with \"prompt_string\", or an array "
      "of these";
  const Json* value = fields.find("prompt");
  std::vector<MixedText> prompts;
  const auto add = [&](const Json& prompt) {
    auto mixed = one_mixed_prompt(prompt);
    if (mixed) prompts.push_back(*std::move(mixed));
    return mixed.has_value();
  };
  const auto is_number = [](const Json& part) { return part.is_number(); };
  bool good = value != nullptr;
  if (good && value->is_array() && !std::ranges::any_of(*value, is_number)) {
    good = !value->empty() && std::ranges::all_of(*value, add);
  } else if (good) {
    good = add(*value);
  }
  if (!good) fields.add_mismatch("prompt", kForms);
  if (good && prompts.size() > kMostPrompts)
    fields.add_mismatch("prompt", fmt::format("at most {} prompts", kMostPrompts));
  return prompts;
}

MixedText read_required_text(FieldReader& fields, const char* key) {
  const Json* value = fields.find(key);
  auto text = value == nullptr ? std::nullopt : mixed_text(*value);
  if (!text) fields.add_mismatch(key, "a string, or an array of strings and token ids");
  return std::move(text).value_or(MixedText());
}

std::vector<InfillFile> read_infill_files(FieldReader& fields) {
  const Json* list = fields.array("input_extra");
  std::vector<InfillFile> files;
  if (list == nullptr) return files;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = fmt::format("input_extra[{}]", i);
    if (!expect_object((*list)[i], path, "\"text\"", fields.problem())) return files;
    FieldReader file((*list)[i], path + ".", fields.problem());
    std::string text = file.required_string("text");
    files.push_back({file.string("filename").value_or("tmp"), std::move(text)});
  }
  return files;
}

Json mixed_schema(size_t fewest) {
  const Json text = {{"type", "string"}};
  const Json part = {{"anyOf", {text, component_schema("TokenId")}}};
  return {{"anyOf", {text, array_schema(part, fewest, {})}}};
}

std::vector<RequestField> mixed_prompt_fields() {
  const Json prompt = {{"anyOf",
                        {mixed_schema(1),
                         {{"type", "object"},
                          {"required", {"prompt_string"}},
                          {"properties",
                           {{"prompt_string", mixed_schema(1)},
                            {"multimodal_data", component_schema("NotSupported")}}}}}}};
  return {RequestField::other("prompt",
                              {{"anyOf", {prompt, array_schema(prompt, 1, kMostPrompts)}}},
                              "A text, an array of texts and token ids, an object with such a "
                              "prompt_string, or an array of several of these")
              .required()};
}

std::vector<RequestField> infill_fields() {
  const Json file = {
      {"type", "object"},
      {"required", {"text"}},
      {"properties",
       {{"text", {{"type", "string"}}}, {"filename", {{"type", {"string", "null"}}}}}}};
  Json files = array_schema(file, {}, {});
  files["type"] = {"array", "null"};
  return {RequestField::other("input_prefix", mixed_schema(0), "The text before the place to fill")
              .required(),
          RequestField::other("input_suffix", mixed_schema(0), "The text after the place to fill")
              .required(),
          RequestField::other("input_extra", files, "Other files that are shown to the model"),
          RequestField::string("prompt", "The begin of the text that fills the place")};
}

std::vector<RequestField> llama_cpp_length_fields() {
  const auto number = [](const char* name, int64_t lowest, const char* meaning) {
    return RequestField::integer(name, lowest, kMostOfInt32, meaning);
  };
  constexpr const char* kLimit =
      "Largest number of tokens of the answer. -1, the default, allows as many as fit into the "
      "context, and 0 only reads the prompt";
  return {
      token_limit_field("n_predict", kLimit),
      token_limit_field("max_tokens", "Another name of n_predict"),
      token_limit_field("max_completion_tokens", "Another name of n_predict"),
      RequestField::integer("n_cmpl", 1, kMostChoices,
                            "Number of answers to each prompt. By default 1"),
      RequestField::integer("n", 1, kMostChoices, "Another name of n_cmpl"),
      number("n_indent", 0,
             "Ends the answer at a line, other than its first, that begins with fewer blanks")
          .by_default(0),
      RequestField::integer(
          "t_max_predict_ms", -1, kMostOfInt32,
          "Time in milliseconds after which the answer ends at the next end of a line. "
          "0 and -1 are no limit")
          .by_default(0),
      number("n_keep", -1, "Without effect: this server never drops the begin of a prompt")
          .by_default(0),
      number("n_discard", 0, "Without effect, like n_keep").by_default(0),
  };
}

std::vector<RequestField> llama_cpp_probability_fields() {
  return {
      RequestField::integer(
          "n_probs", 0, kMostProbabilities,
          "Number of likely tokens that are told for each token. They are the model's "
          "own probabilities, before sampling. By default 0"),
      RequestField::integer("logprobs", 0, kMostProbabilities, "Another name of n_probs"),
      RequestField::not_supported("post_sampling_probs",
                                  "expected false: probabilities are those before sampling"),
      RequestField::integer("min_keep", 0, 1,
                            "Samplers always keep one token; more is not supported")
          .by_default(0),
      RequestField::other(
          "logit_bias", {{"type", {"array", "object", "null"}}},
          "Numbers that are added to the logits of tokens, as [[id or text, number], ...] or "
          "as {id or text: number}. false forbids the tokens"),
  };
}

std::vector<RequestField> llama_cpp_output_fields() {
  return {
      RequestField::boolean("cache_prompt", "Whether the cached begin of the prompt is used")
          .by_default(true),
      RequestField::integer("id_slot", -1, kMostOfInt32,
                            "Without effect: the cache belongs to all requests")
          .by_default(-1),
      RequestField::boolean("return_tokens", "Whether the answer has its token ids")
          .by_default(false),
      RequestField::boolean("timings_per_token", "Whether every event of a stream has timings")
          .by_default(false),
      RequestField::boolean("return_progress",
                            "Whether a stream tells how much of the prompt was read")
          .by_default(false),
      RequestField::other(
          "response_fields",
          {{"anyOf",
            {array_schema({{"type", "string"}}, {}, kMostResponseFields), {{"type", "null"}}}}},
          "The fields that the answer has, for example \"content\" or "
          "\"generation_settings/n_predict\". By default all"),
      RequestField::not_supported("lora", "this server has no adapters"),
      RequestField::not_supported("image_data", "texts are the only thing that this model reads"),
      RequestField::not_supported("grammar_lazy", "the grammar holds from the first token"),
      RequestField::not_supported("grammar_triggers", "the grammar holds from the first token"),
  };
}

// Returns `own` and the fields that all APIs share, except those that `own` has in another form.
RequestTable table_of(std::vector<RequestField> own) {
  for (const auto& list :
       {llama_cpp_length_fields(), llama_cpp_probability_fields(), llama_cpp_output_fields(),
        RequestField::ignored({"n_cache_reuse", "t_max_prompt_ms", "sse_ping_interval",
                               "preserved_tokens", "backend_sampling", "verbose"})})
    own.insert(own.end(), list.begin(), list.end());
  std::set<std::string, std::less<>> names;
  for (const RequestField& field : own) names.insert(field.name);
  std::vector<RequestField> shared = generation_fields();
  std::erase_if(shared, [&](const RequestField& field) { return names.contains(field.name); });
  return RequestTable({std::move(own), std::move(shared)}).with_others(fields_of_other_servers());
}

void read_lengths(FieldReader& fields, LlamaCppRequest& request) {
  GenerationParameters& parameters = request.parameters;
  parameters.max_tokens = kNoTokenLimit;
  for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    if (const auto limit = fields.integer(name)) parameters.max_tokens = limit;
  }
  const auto n = fields.integer("n");
  parameters.n = fields.integer("n_cmpl").value_or(n.value_or(1));
  if (std::ssize(request.prompts) * parameters.n > kMostAnswers)
    fields.add_error("n_cmpl",
                     fmt::format("expected at most {} answers, found {} prompts with {} each",
                                 kMostAnswers, request.prompts.size(), parameters.n));
  request.n_indent = fields.integer_or_default("n_indent");
  request.t_max_predict_ms = fields.integer_or_default("t_max_predict_ms");
  request.n_keep = fields.integer_or_default("n_keep");
  request.n_discard = fields.integer_or_default("n_discard");
}

// llama.cpp's clients write -1, or the same as a number of 32 bits, for a random seed.
std::optional<uint64_t> chosen_seed(const std::optional<uint64_t>& seed) {
  const bool is_random = seed && (*seed == UINT64_MAX || *seed == UINT32_MAX);
  return is_random ? std::nullopt : seed;
}

LlamaCppRequest read_llama_cpp_fields(FieldReader& fields) {
  LlamaCppRequest request;
  request.parameters = read_generation_parameters(fields);
  request.parameters.seed = chosen_seed(request.parameters.seed);
  const auto logprobs = fields.integer("logprobs");
  const int64_t probabilities = fields.integer("n_probs").value_or(logprobs.value_or(0));
  if (probabilities > 0) request.parameters.logprobs = probabilities;
  request.cache_prompt = fields.boolean_or_default("cache_prompt");
  request.return_tokens = fields.boolean_or_default("return_tokens");
  request.timings_per_token = fields.boolean_or_default("timings_per_token");
  request.return_progress = fields.boolean_or_default("return_progress");
  request.id_slot = fields.integer_or_default("id_slot");
  request.min_keep = fields.integer_or_default("min_keep");
  request.response_fields = read_text_list(fields, "response_fields", kMostResponseFields);
  request.parameters.unknown_fields = unknown_fields(fields);
  return request;
}

// Takes logit_bias out of the body, because the shared reader knows only OpenAI's form of it.
Json take_biases(Json& body) {
  const auto found = body.find("logit_bias");
  if (found == body.end()) return {};
  Json biases = std::move(*found);
  body.erase("logit_bias");
  return biases;
}

template <typename ReadPrompts>
ApiResult<LlamaCppRequest> parse_llama_cpp(std::string_view body, const RequestTable& table,
                                           const ReadPrompts& read_prompts_of) {
  NMM_ASSIGN(Json root, parse_body(body));
  const Json biases = take_biases(root);
  RequestProblem problem;
  FieldReader fields(root, "", problem, &table);
  LlamaCppRequest request = read_llama_cpp_fields(fields);
  request.logit_bias = read_text_biases(biases, fields);
  read_prompts_of(fields, request);
  read_lengths(fields, request);
  fields.refuse_unsupported();
  if (problem.found()) return problem.error();
  return request;
}

}  // namespace

const RequestTable& llama_cpp_completion_table() {
  static const RequestTable table = table_of(mixed_prompt_fields());
  return table;
}

const RequestTable& llama_cpp_infill_table() {
  static const RequestTable table = table_of(infill_fields());
  return table;
}

ApiResult<LlamaCppRequest> parse_llama_cpp_completion(std::string_view body) {
  return parse_llama_cpp(body, llama_cpp_completion_table(),
                         [](FieldReader& fields, LlamaCppRequest& request) {
                           request.prompts = read_mixed_prompts(fields);
                         });
}

ApiResult<LlamaCppRequest> parse_llama_cpp_infill(std::string_view body) {
  return parse_llama_cpp(body, llama_cpp_infill_table(),
                         [](FieldReader& fields, LlamaCppRequest& request) {
                           request.prompts = {{fields.string("prompt").value_or("")}};
                           request.input_prefix = read_required_text(fields, "input_prefix");
                           request.input_suffix = read_required_text(fields, "input_suffix");
                           request.input_extra = read_infill_files(fields);
                         });
}

}  // namespace neuronmm::serve
