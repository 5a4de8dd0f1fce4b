#include "serve/protocol/tokenizer_endpoints.h"

#include "serve/protocol/prompt.h"
#include "serve/requests/anthropic_request.h"
#include "serve/requests/chat_request.h"
#include "serve/requests/generation_parameters.h"
#include "text/unicode/utf8.h"

namespace neuronmm::serve {
namespace {

// Returns the prompt of a chat. Fields that only concern the answer, such as tool_choice, are not
// required.
ApiResult<ChatPromptTokens> prompt_of_chat(const ServedModel& model, FieldReader& fields,
                                           bool add_special_tokens) {
  const ToolFields tools = read_tool_fields(fields, ToolSpelling::kNested);
  const text::Conversation conversation = read_conversation(fields, tools);
  fields.refuse_unsupported();
  if (fields.problem().found()) return fields.problem().error();
  return chat_prompt(model, conversation, add_special_tokens);
}

// Returns the tokens of llama.cpp's field "content" or of vLLM's field "prompt". For "content",
// special tokens are added only if "add_special" is true, and recognized in the text unless
// "parse_special" is false.
ApiResult<std::vector<TokenId>> tokens_of_text(const ServedModel& model, FieldReader& fields,
                                               std::optional<bool> add_special_tokens,
                                               bool add_special, bool parse_special) {
  if (const Json* content = fields.find("content")) {
    const auto mixed = mixed_text(*content);
    if (!mixed) fields.add_mismatch("content", "a string, or an array of strings and token ids");
    if (fields.problem().found()) return fields.problem().error();
    return mixed_tokens(model, *mixed, "content", parse_special, add_special);
  }
  const std::string text = fields.required_string("prompt");
  if (fields.problem().found()) return fields.problem().error();
  return text_prompt(model, text, add_special_tokens.value_or(true));
}

// Returns the text of a token, or its bytes as numbers if it has only a part of a character, as
// llama.cpp does.
Json piece_of(const text::Tokenizer& tokenizer, TokenId id) {
  const std::string bytes = tokenizer.token_bytes(id);
  if (text::valid_utf8_length(bytes) == std::ssize(bytes)) return bytes;
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

Json with_pieces(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Json tokens = Json::array();
  for (const TokenId id : ids) tokens.push_back({{"id", id}, {"piece", piece_of(tokenizer, id)}});
  return tokens;
}

Json token_texts(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Json texts = Json::array();
  for (const TokenId id : ids) texts.push_back(tokenizer.decode_inside(id));
  return texts;
}

void tell_unknown(const FieldReader& fields, std::vector<std::string>* unknown) {
  if (unknown != nullptr) *unknown = unknown_fields(fields);
}

}  // namespace

const RequestTable& tokenize_table() {
  using Field = RequestField;
  static const RequestTable table = {{
      Field::string("model", kModelMeaning),
      Field::other("prompt", Json::object(), "The text to tokenize, as vLLM names it"),
      Field::other(
          "content", Json::object(),
          "The text to tokenize, as llama.cpp names it; also an array of texts and token ids"),
      Field::other("messages", Json::object(),
                   "The messages of a chat to tokenize; all other fields of POST /apply-template "
                   "are allowed, too"),
      Field::boolean("add_special_tokens",
                     "Whether the tokenizer's special tokens are put before a prompt or a chat. By "
                     "default true for a prompt and false for a chat"),
      Field::boolean("add_special", "Whether the tokenizer's special tokens are put before content")
          .by_default(false),
      Field::boolean("parse_special", "Whether special tokens are recognized in content")
          .by_default(true),
      Field::boolean("return_token_strs",
                     "Whether the response has the text of each token in token_strs")
          .by_default(false),
      Field::boolean("with_pieces",
                     "Whether each token of the response is an object with its id and its piece: "
                     "its text, or an array of its bytes if they are a part of a character")
          .by_default(false),
  }};
  return table;
}

const RequestTable& detokenize_table() {
  static const RequestTable table = {
      {RequestField::string("model", kModelMeaning),
       RequestField::token_ids(
           "tokens", "The tokens to turn into text. Ids must be below the size of the vocabulary")
           .required()}};
  return table;
}

ApiResult<std::string> tokenize_response(const ServedModel& model, std::string_view body,
                                         std::vector<std::string>* unknown) {
  NMM_ASSIGN(Json root, parse_body(body));
  RequestProblem problem;
  FieldReader fields(root, "", problem, &tokenize_table());
  NMM_TRY(check_model(model, fields.string("model").value_or("")));
  const auto special = fields.boolean("add_special_tokens");
  const bool special_of_content = fields.boolean_or_default("add_special");
  const bool parse_special = fields.boolean_or_default("parse_special");
  const bool texts = fields.boolean_or_default("return_token_strs");
  const bool pieces = fields.boolean_or_default("with_pieces");
  std::vector<TokenId> ids;
  tell_unknown(fields, unknown);
  if (fields.find("messages") != nullptr) {
    FieldReader chat(root, "", problem, &chat_prompt_table());
    tell_unknown(chat, unknown);
    const auto is_known = [](const std::string& name) {
      return tokenize_table().find(name) != nullptr;
    };
    if (unknown != nullptr) std::erase_if(*unknown, is_known);
    NMM_ASSIGN(ChatPromptTokens prompt, prompt_of_chat(model, chat, special.value_or(false)));
    ids = std::move(prompt.tokens);
  } else {
    NMM_ASSIGN(ids, tokens_of_text(model, fields, special, special_of_content, parse_special));
  }
  Json answer = {{"count", ids.size()}, {"max_model_len", model.context_tokens}, {"tokens", ids}};
  if (pieces) answer["tokens"] = with_pieces(*model.tokenizer, ids);
  answer["token_strs"] = texts ? token_texts(*model.tokenizer, ids) : Json();
  return dump_json(answer);
}

ApiResult<std::string> detokenize_response(const ServedModel& model, std::string_view body,
                                           std::vector<std::string>* unknown) {
  NMM_ASSIGN(Json root, parse_body(body));
  RequestProblem problem;
  FieldReader fields(root, "", problem, &detokenize_table());
  NMM_TRY(check_model(model, fields.string("model").value_or("")));
  tell_unknown(fields, unknown);
  if (fields.find("tokens") == nullptr) fields.add_mismatch("tokens", "an array of token ids");
  const std::vector<TokenId> ids = fields.token_ids("tokens");
  for (const TokenId id : ids) {
    if (id >= model.vocab_size) problem.add(outside_vocabulary(model, id, "tokens"));
  }
  if (problem.found()) return problem.error();
  const std::string text = model.tokenizer->decode(ids);
  return dump_json(
      {{"prompt", text}, {"content", text}});  // vLLM's name of the field and llama.cpp's
}

std::string tokenizer_info_json(const ServedModel& model) {
  const text::TokenizerConfig& config = model.tokenizer->config();
  // Model folders name the class of Hugging Face that reads their tokenizer. This is the class that
  // reads every tokenizer.json.
  Json info = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"model_max_length", model.context_tokens}};
  for (const auto& [name, token] : config.special_tokens) info[name] = token;
  const auto& templates = config.chat_templates;
  if (templates.size() == 1) {
    info["chat_template"] = templates.begin()->second;
  } else if (!templates.empty()) {
    for (const auto& [name, text] : templates)
      info["chat_template"].push_back({{"name", name}, {"template", text}});
  }
  return dump_json(info);
}

ApiResult<std::string> apply_template_response(const ServedModel& model, std::string_view body,
                                               std::vector<std::string>* unknown) {
  NMM_ASSIGN(Json root, parse_body(body));
  RequestProblem problem;
  FieldReader fields(root, "", problem, &chat_prompt_table());
  NMM_TRY(check_model(model, fields.string("model").value_or("")));
  tell_unknown(fields, unknown);
  NMM_ASSIGN(ChatPromptTokens prompt, prompt_of_chat(model, fields, false));
  return dump_json({{"prompt", prompt.text}});
}

ApiResult<std::string> count_tokens_response(const ServedModel& model, std::string_view body,
                                             std::vector<std::string>* unknown) {
  NMM_ASSIGN(const ChatRequest request,
             read_body(body, anthropic_prompt_table(), read_anthropic_prompt));
  if (unknown != nullptr) *unknown = request.parameters.unknown_fields;
  NMM_TRY(check_model(model, request.parameters.model));
  NMM_ASSIGN(const ChatPromptTokens prompt, chat_prompt(model, request.conversation, false));
  return dump_json({{"input_tokens", prompt.tokens.size()}});
}

}  // namespace neuronmm::serve
