#include "serve/requests/embedding_request.h"

#include "serve/requests/ollama_options.h"
#include "serve/requests/ollama_request.h"

namespace neuronmm::serve {
namespace {

// The largest number of values of one embedding. Assumed: no model has as many.
constexpr int64_t kMostDimensions = int64_t{1} << 20;

// Reads a text, token ids, or an array of texts and arrays of ids.
std::vector<TextOrTokens> read_inputs(FieldReader& fields, const std::string& key) {
  constexpr std::string_view kForms =
      "a string, token ids, or an array of at least one string or array of ids";
  const Json* value = fields.find(key);
  if (value == nullptr) {
    fields.add_mismatch(key, kForms);
    return {};
  }
  if (auto input = text_or_tokens(*value)) return {*std::move(input)};
  std::vector<TextOrTokens> inputs;
  if (value->is_array() && value->size() > kMostEmbeddingInputs) {
    fields.add_mismatch(key, fmt::format("at most {} inputs", kMostEmbeddingInputs));
    return {};
  }
  if (!value->is_array() || value->empty()) {
    fields.add_mismatch(key, kForms);
    return {};
  }
  for (size_t i = 0; i < value->size() && !fields.problem().found(); ++i) {
    auto input = text_or_tokens((*value)[i]);
    if (input) {
      inputs.push_back(*std::move(input));
    } else {
      fields.add_error(fmt::format("{}[{}]", key, i),
                       fmt::format("expected a string or an array of token ids, found {}",
                                   describe((*value)[i])));
    }
  }
  return inputs;
}

// Reads a text or a list of texts. No input and an empty text load the model.
std::vector<TextOrTokens> read_ollama_inputs(FieldReader& fields, const std::string& key) {
  const Json* value = fields.find(key);
  if (value == nullptr || *value == "") return {};
  std::vector<TextOrTokens> inputs = read_inputs(fields, key);
  for (const TextOrTokens& input : inputs) {
    if (std::holds_alternative<std::string>(input)) continue;
    fields.add_mismatch(key, "a string or an array of at least one string");
    return {};
  }
  return inputs;
}

void read_encoding(FieldReader& fields, EmbeddingRequest& request) {
  const std::string encoding = fields.string("encoding_format").value_or("float");
  if (encoding != "float" && encoding != "base64")
    fields.add_mismatch("encoding_format", "\"float\" or \"base64\"");
  request.base64 = encoding == "base64";
}

void read_openai(FieldReader& fields, EmbeddingRequest& request) {
  request.input_param = "input";
  request.inputs = read_inputs(fields, "input");
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (request.inputs[i] == TextOrTokens(std::string()))
      fields.add_error("input", "expected texts that are not empty");
  }
  read_encoding(fields, request);
  request.dimensions = fields.integer("dimensions");
  request.add_special_tokens = fields.boolean_or_default("add_special_tokens");
  request.priority = fields.integer_or_default("priority");
  request.cache_salt = fields.string("cache_salt").value_or("");
}

void read_llama(FieldReader& fields, EmbeddingRequest& request) {
  request.input_param = fields.find("input") != nullptr ? "input" : "content";
  request.inputs = read_inputs(fields, request.input_param);
  read_encoding(fields, request);
  request.normalization = fields.integer_or_default("embd_normalize");
}

void read_ollama(FieldReader& fields, EmbeddingRequest& request) {
  const bool old = request.form == EmbeddingForm::kOllamaOld;
  request.input_param = old ? "prompt" : "input";
  if (old) (void)fields.string("prompt");
  request.inputs = read_ollama_inputs(fields, request.input_param);
  GenerationParameters unused;
  read_ollama_options(fields, unused);
  (void)read_keep_alive_is_zero(fields);
  if (old) {
    request.truncates = true;
    request.normalization = kNoNormalization;
    return;
  }
  request.truncates = fields.boolean_or_default("truncate");
  const auto dimensions = fields.integer("dimensions");
  if (dimensions.value_or(0) > 0) request.dimensions = dimensions;
}

EmbeddingRequest read_request(EmbeddingForm form, FieldReader& fields) {
  EmbeddingRequest request;
  request.form = form;
  request.model = is_ollama(form) ? read_ollama_model(fields) : fields.string("model").value_or("");
  if (is_ollama(form))
    read_ollama(fields, request);
  else if (form == EmbeddingForm::kLlama)
    read_llama(fields, request);
  else
    read_openai(fields, request);
  request.unknown_fields = unknown_fields(fields);
  return request;
}

Json inputs_schema() {
  const Json id = component_schema("TokenId"), text = {{"type", "string"}};
  const Json either = {{"anyOf", {text, array_schema(id, 1, {})}}};
  return {
      {"anyOf", {text, array_schema(id, 1, {}), array_schema(either, 1, kMostEmbeddingInputs)}}};
}

Json texts_schema() {
  const Json text = {{"type", "string"}};
  return {{"anyOf", {text, array_schema(text, 1, kMostEmbeddingInputs), {{"type", "null"}}}}};
}

RequestField encoding_field() {
  return RequestField::other("encoding_format", {{"enum", {"float", "base64", nullptr}}},
                             "Whether the numbers are sent as JSON numbers or as base64 of fp32 "
                             "values, the lowest byte first. By default float");
}

RequestTable openai_table() {
  using Field = RequestField;
  return {{
              Field::string("model", kModelMeaning),
              Field::other("input", inputs_schema(),
                           "A text, an array of token ids, or an array of several of either. Texts "
                           "must not be empty")
                  .required(),
              encoding_field(),
              Field::integer("dimensions", 1, kMostDimensions,
                             "How many of the first numbers to send, scaled again to length 1. By "
                             "default all"),
              Field::boolean("add_special_tokens",
                             "Whether the tokenizer's special tokens are put around a text")
                  .by_default(true),
              cache_salt_field(),
              priority_field(),
              Field::not_supported("truncate_prompt_tokens", "expected shorter inputs instead"),
              Field::not_supported("messages", "expected \"input\""),
          },
          Field::ignored({"user"})};
}

RequestTable llama_table() {
  using Field = RequestField;
  return {{
      Field::string("model", kModelMeaning),
      Field::other("content", nullable_schema(inputs_schema()),
                   "A text, an array of token ids, or an array of several of either"),
      Field::other("input", nullable_schema(inputs_schema()), "Another name of content"),
      encoding_field(),
      Field::integer("embd_normalize", kNoNormalization, 64,
                     "How an embedding is scaled: -1 not at all, 0 by its largest value, 1 by the "
                     "sum of the absolute values, 2 to length 1, and p > 2 by the p-norm")
          .by_default(kEuclideanNorm),
      Field::not_supported("image_data", "this model reads text"),
  }};
}

RequestTable ollama_table() {
  using Field = RequestField;
  return {{
      ollama_model_field(),
      Field::other("input", texts_schema(), "A text or several. An empty text loads the model"),
      Field::boolean("truncate", "Whether an input that is too long loses its end")
          .by_default(true),
      Field::integer("dimensions", 0, kMostDimensions,
                     "How many of the first numbers to send, scaled again to length 1. 0 and more "
                     "than there are mean all"),
      ollama_options_field(),
      keep_alive_field(),
  }};
}

RequestTable old_ollama_table() {
  using Field = RequestField;
  return {{
      ollama_model_field(),
      Field::string("prompt", "A text. An empty one loads the model"),
      ollama_options_field(),
      keep_alive_field(),
  }};
}

}  // namespace

const RequestTable& embedding_table(EmbeddingForm form) {
  static const RequestTable openai = openai_table(), llama = llama_table(), ollama = ollama_table(),
                            old = old_ollama_table();
  switch (form) {
    case EmbeddingForm::kOpenAi:
      return openai;
    case EmbeddingForm::kOllama:
      return ollama;
    case EmbeddingForm::kOllamaOld:
      return old;
    case EmbeddingForm::kLlama:
      break;
  }
  return llama;
}

ApiResult<EmbeddingRequest> parse_embedding_request(EmbeddingForm form, std::string_view body) {
  return read_body(body, embedding_table(form),
                   [form](FieldReader& fields) { return read_request(form, fields); });
}

ApiResult<EmbeddingRequest> parse_embeddings_of_either(std::string_view body) {
  NMM_ASSIGN(const Json root, parse_body(body));
  const bool llama = root.contains("content") || root.contains("embd_normalize");
  return parse_embedding_request(llama ? EmbeddingForm::kLlama : EmbeddingForm::kOpenAi, body);
}

}  // namespace neuronmm::serve
