#include "serve/protocol/tokenizer_endpoints.h"

#include <limits>

#include "serve/protocol/anthropic_request.h"
#include "serve/protocol/chat_request.h"
#include "serve/protocol/prompt.h"

namespace neuronmm::serve {
namespace {

// A chat of which only the prompt is wanted: also without tool_choice and the like.
ApiResult<ChatPromptTokens> prompt_of_chat(const ServedModel& model, FieldReader& fields,
                                           bool add_special_tokens) {
  const ToolFields tools = read_tool_fields(fields, ToolSpelling::kNested);
  const text::Conversation conversation = read_conversation(fields, tools);
  if (fields.problem().found()) return fields.problem().error();
  return chat_prompt(model, conversation, add_special_tokens);
}

// llama.cpp's "content", without special tokens unless "add_special" says so, or vLLM's "prompt".
ApiResult<std::vector<TokenId>> tokens_of_text(const ServedModel& model, FieldReader& fields,
                                               std::optional<bool> add_special_tokens,
                                               bool add_special) {
  const bool is_content = fields.find("content") != nullptr;
  const std::string text = fields.required_string(is_content ? "content" : "prompt");
  if (fields.problem().found()) return fields.problem().error();
  return text_prompt(model, text, is_content ? add_special : add_special_tokens.value_or(true));
}

Json with_pieces(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Json tokens = Json::array();
  for (const TokenId id : ids)
    tokens.push_back({{"id", id}, {"piece", tokenizer.decode_inside(id)}});
  return tokens;
}

Json token_texts(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Json texts = Json::array();
  for (const TokenId id : ids) texts.push_back(tokenizer.decode_inside(id));
  return texts;
}

}  // namespace

ApiResult<std::string> tokenize_response(const ServedModel& model, std::string_view body) {
  NMM_ASSIGN(const Json root, parse_body(body));
  RequestProblem problem;
  FieldReader fields(root, "", problem);
  NMM_TRY(check_model(model, fields.string("model").value_or("")));
  const auto special = fields.boolean("add_special_tokens");
  const bool special_of_content = fields.boolean("add_special").value_or(false);
  const bool texts = fields.boolean("return_token_strs").value_or(false);
  const bool pieces = fields.boolean("with_pieces").value_or(false);
  std::vector<TokenId> ids;
  if (fields.find("messages") != nullptr) {
    NMM_ASSIGN(ChatPromptTokens prompt, prompt_of_chat(model, fields, special.value_or(false)));
    ids = std::move(prompt.tokens);
  } else {
    NMM_ASSIGN(ids, tokens_of_text(model, fields, special, special_of_content));
  }
  Json answer = {{"count", ids.size()}, {"max_model_len", model.context_tokens}, {"tokens", ids}};
  if (pieces) answer["tokens"] = with_pieces(*model.tokenizer, ids);
  answer["token_strs"] = texts ? token_texts(*model.tokenizer, ids) : Json();
  return dump_json(answer);
}

ApiResult<std::string> detokenize_response(const ServedModel& model, std::string_view body) {
  NMM_ASSIGN(const Json root, parse_body(body));
  RequestProblem problem;
  FieldReader fields(root, "", problem);
  NMM_TRY(check_model(model, fields.string("model").value_or("")));
  if (fields.find("tokens") == nullptr) fields.wrong("tokens", "an array of token ids");
  std::vector<TokenId> ids;
  for (const int64_t id : fields.integers("tokens", std::numeric_limits<TokenId>::max())) {
    if (id >= model.vocab_size)
      fields.fail("tokens",
                  fmt::format("expected token ids below {}, found {}", model.vocab_size, id));
    ids.push_back(static_cast<TokenId>(id));
  }
  if (problem.found()) return problem.error();
  const std::string text = model.tokenizer->decode(ids);
  return dump_json({{"prompt", text}, {"content", text}});  // vLLM's name and llama.cpp's
}

std::string tokenizer_info_json(const ServedModel& model) {
  const text::TokenizerConfig& config = model.tokenizer->config();
  // Files of models say which class of Hugging Face's reads them; this one reads all
  // tokenizer.json.
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

ApiResult<std::string> apply_template_response(const ServedModel& model, std::string_view body) {
  NMM_ASSIGN(const Json root, parse_body(body));
  RequestProblem problem;
  FieldReader fields(root, "", problem);
  NMM_TRY(check_model(model, fields.string("model").value_or("")));
  NMM_ASSIGN(ChatPromptTokens prompt, prompt_of_chat(model, fields, false));
  return dump_json({{"prompt", prompt.text}});
}

ApiResult<std::string> count_tokens_response(const ServedModel& model, std::string_view body) {
  NMM_ASSIGN(const ChatRequest request, read_body(body, read_anthropic_prompt));
  NMM_TRY(check_model(model, request.parameters.model));
  NMM_ASSIGN(const ChatPromptTokens prompt, chat_prompt(model, request.conversation, false));
  return dump_json({{"input_tokens", prompt.tokens.size()}});
}

}  // namespace neuronmm::serve
