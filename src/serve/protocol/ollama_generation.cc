#include "serve/protocol/ollama_generation.h"

#include "serve/protocol/infill.h"
#include "serve/protocol/prepared_parts.h"
#include "serve/protocol/prompt.h"
#include "serve/requests/ollama_request.h"
#include "serve/responses/ollama_writer.h"

namespace neuronmm::serve {
namespace {

// The values of options that neither the request nor the model's folder gives. Documented: Ollama's
// docs/modelfile.mdx.
constexpr double kOllamaTemperature = 0.8, kOllamaTopP = 0.9;
constexpr int64_t kOllamaTopK = 40;

void fill_ollama_defaults(const io::GenerationConfig& generation, GenerationParameters& fields) {
  if (!fields.temperature && !generation.temperature) fields.temperature = kOllamaTemperature;
  if (!fields.top_k && !generation.top_k) fields.top_k = kOllamaTopK;
  if (!fields.top_p && !generation.top_p) fields.top_p = kOllamaTopP;
}

// Sends a whole response, for a request that needs no engine.
PreparedGeneration answered(const GenerationContext& context, const OllamaRequest& request,
                            const Json& body) {
  context.sink->response(200, dump_json(body));
  context.sink->end();
  PreparedGeneration generation;
  generation.unknown_fields = request.chat.parameters.unknown_fields;
  return generation;
}

ApiResult<bool> check_thinking(const ServedModel& model, const ChatRequest& chat) {
  const TemplateTraits& traits =
      chat.conversation.tools.is_null() ? model.plain_chats : model.tool_chats;
  if (traits.thinks || !chat.conversation.template_kwargs.value("enable_thinking", false))
    return true;
  return invalid_request(
      "think", fmt::format("{} does not support thinking", describe(Json(chat.parameters.model))));
}

// Returns the indices of the messages with which a shortened conversation may begin: those of the
// user, and the last one.
std::vector<size_t> possible_beginnings(const Json& messages) {
  std::vector<size_t> beginnings;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] == "user" || i + 1 == messages.size()) beginnings.push_back(i);
  }
  return beginnings;
}

// Returns the conversation without its messages before `beginning`, except those of the system.
text::Conversation shortened(const text::Conversation& conversation, size_t beginning) {
  text::Conversation rest = {.tools = conversation.tools,
                             .documents = conversation.documents,
                             .add_generation_prompt = conversation.add_generation_prompt,
                             .continue_field = conversation.continue_field,
                             .template_kwargs = conversation.template_kwargs};
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const Json& message = conversation.messages[i];
    const bool system = message["role"] == "system" || message["role"] == "developer";
    if (system || i >= beginning) rest.messages.push_back(message);
  }
  return rest;
}

// Returns the prompt of the conversation. If it is too long and may be shortened, the result has as
// many of the latest messages as fit. The search goes from the end and doubles its steps until a
// prompt is too long, so that it tokenizes little more than what fits in the end.
ApiResult<ChatPromptTokens> fitting_prompt(const ServedModel& model, const OllamaRequest& request) {
  const text::Conversation& conversation = request.chat.conversation;
  const ToolSyntax calls = call_syntax(model.tool_chats.tools, request.chat);
  NMM_ASSIGN(ChatPromptTokens best, chat_prompt(model, conversation, false, calls));
  const auto fits = [&](const ChatPromptTokens& prompt) {
    return std::ssize(prompt.tokens) + std::ssize(request.context) < model.context_tokens;
  };
  if (fits(best) || !request.truncates) return best;
  const std::vector<size_t> beginnings = possible_beginnings(conversation.messages);
  // `fitting` beginnings from the end fit, and `too_many` do not.
  size_t fitting = 0, too_many = beginnings.size() + 1, step = 1;
  while (fitting + 1 < too_many) {
    const bool steps = step > 0 && fitting + step < too_many;
    const size_t tried = steps ? fitting + step : (fitting + too_many) / 2;
    const size_t beginning = beginnings[beginnings.size() - tried];
    auto prompt = chat_prompt(model, shortened(conversation, beginning), false, calls);
    if (prompt.ok() && fits(*prompt)) {
      best = *std::move(prompt);
      fitting = tried;
      step *= 2;
    } else {
      too_many = tried;
      step = 0;
    }
  }
  return best;
}

// Returns the tokens of an earlier answer and those of the new prompt after them. The new prompt
// does not begin a text, so it loses the token that says so.
ApiResult<std::vector<TokenId>> with_context(const ServedModel& model,
                                             const std::vector<TokenId>& context,
                                             std::vector<TokenId> prompt) {
  for (const TokenId id : context) {
    if (id >= model.vocab_size) return outside_vocabulary(model, id, "context");
  }
  if (context.empty()) return prompt;
  const auto bos = model.tokenizer->bos_id();
  if (bos && !prompt.empty() && prompt.front() == *bos) prompt.erase(prompt.begin());
  prompt.insert(prompt.begin(), context.begin(), context.end());
  return prompt;
}

// Returns the prompt for a model without a chat template, which continues texts.
std::string joined_messages(const Json& messages) {
  std::string text;
  for (const Json& message : messages)
    text += (text.empty() ? "" : "\n") + message["content"].get<std::string>();
  return text;
}

struct OllamaPrompt {
  std::vector<TokenId> tokens;
  std::string text;
  PromptReasoning reasoning = {};
  std::vector<TokenId> stops = {};  // in addition to those of the model
};

// Returns the prompt for the middle between request.raw_prompt and request.suffix.
ApiResult<OllamaPrompt> middle_prompt(const ServedModel& model, const OllamaRequest& request) {
  NMM_ASSIGN(InfillTokens marks, find_infill_tokens(model, "suffix"));
  NMM_ASSIGN(std::vector<TokenId> prefix, code_tokens(model, *request.raw_prompt, "prompt"));
  NMM_ASSIGN(std::vector<TokenId> tokens,
             infill_prompt(model, marks, std::move(prefix), request.suffix,
                           request.chat.parameters.max_tokens));
  std::string text = model.tokenizer->decode(tokens);
  return OllamaPrompt{std::move(tokens), std::move(text), {}, std::move(marks.stops)};
}

ApiResult<OllamaPrompt> prompt_of(const ServedModel& model, const OllamaRequest& request) {
  if (!request.suffix.empty()) return middle_prompt(model, request);
  if (request.raw_prompt) {
    NMM_ASSIGN(std::vector<TokenId> text, text_prompt(model, *request.raw_prompt, true));
    NMM_ASSIGN(std::vector<TokenId> tokens, with_context(model, request.context, std::move(text)));
    return OllamaPrompt{std::move(tokens), *request.raw_prompt};
  }
  NMM_ASSIGN(ChatPromptTokens chat, fitting_prompt(model, request));
  NMM_ASSIGN(std::vector<TokenId> tokens,
             with_context(model, request.context, std::move(chat.tokens)));
  return OllamaPrompt{std::move(tokens), std::move(chat.text), chat.reasoning};
}

ApiResult<PreparedGeneration> prepare(const ServedModel& model, const OllamaRequest& request,
                                      OllamaForm form, const GenerationContext& context) {
  const GenerationParameters& fields = request.chat.parameters;
  const bool chat = form == OllamaForm::kChat;
  NMM_TRY(check_ollama_model(model, fields.model));
  if (request.empty) {
    Json body = ollama_answer_head(form, fields.model);
    body.update({{"done", true}, {"done_reason", request.unloads ? "unload" : "load"}});
    return answered(context, request, body);
  }
  NMM_TRY(check_thinking(model, request.chat));
  NMM_ASSIGN(OllamaPrompt prompt, prompt_of(model, request));
  if (request.renders_only) {
    Json body = ollama_answer_head(form, fields.model);
    body.update({{"done", false}, {"_debug_info", {{"rendered_template", prompt.text}}}});
    return answered(context, request, body);
  }
  const char* const param = chat ? "messages" : "prompt";
  NMM_TRY(check_prompt(model, prompt.tokens, fields.max_tokens, param));
  const bool raw = request.raw_prompt.has_value();
  NMM_ASSIGN(Request submission,
             engine_request(model, fields, prompt.tokens, !raw, context.random));
  submission.stop_tokens.insert(submission.stop_tokens.end(), prompt.stops.begin(),
                                prompt.stops.end());
  const ToolSyntax syntax = call_syntax(model.tool_chats.tools, request.chat);
  ChatOutputSettings output;
  output.continues_message = raw;
  if (!raw) output = chat_settings(request.chat, syntax, prompt.reasoning, context.random());
  ResponseSettings settings = response_settings(model, fields, context, "ollama-");
  settings.prompts = {std::move(prompt.tokens)};
  auto writer = std::make_shared<OllamaWriter>(settings, std::move(output), form, !chat && !raw,
                                               context.sink);
  PreparedGeneration generation = prepared_generation(std::move(writer), settings, fields);
  generation.requests.push_back(std::move(submission));
  generation.structured_output = raw ? structured_output(fields.response_format)
                                     : structured_output(request.chat, syntax, prompt.reasoning);
  generation.prompt_param = param;
  return generation;
}

}  // namespace

ApiResult<bool> check_ollama_model(const ServedModel& model, std::string_view name) {
  auto checked = check_model(model, name);
  if (checked.ok()) return checked;
  ApiError error = checked.error();
  error.message =
      fmt::format("model '{}' not found; GET /api/tags lists what there is", name.substr(0, 200));
  return error;
}

ApiResult<PreparedGeneration> prepare_ollama_chat(const ServedModel& model, std::string_view body,
                                                  const GenerationContext& context) {
  NMM_ASSIGN(OllamaRequest request, parse_ollama_chat(body));
  fill_ollama_defaults(model.generation, request.chat.parameters);
  return prepare(model, request, OllamaForm::kChat, context);
}

ApiResult<PreparedGeneration> prepare_ollama_generate(const ServedModel& model,
                                                      std::string_view body,
                                                      const GenerationContext& context) {
  NMM_ASSIGN(OllamaRequest request, parse_ollama_generate(body));
  fill_ollama_defaults(model.generation, request.chat.parameters);
  if (model.tokenizer->config().chat_templates.empty() && !request.raw_prompt)
    request.raw_prompt = joined_messages(request.chat.conversation.messages);
  return prepare(model, request, OllamaForm::kGenerate, context);
}

}  // namespace neuronmm::serve
