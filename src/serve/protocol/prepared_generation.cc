#include "serve/protocol/prepared_generation.h"

#include "serve/output/random_id.h"
#include "serve/protocol/infill.h"
#include "serve/protocol/prepared_parts.h"
#include "serve/requests/anthropic_request.h"
#include "serve/requests/responses_api_request.h"
#include "serve/responses/anthropic_writer.h"
#include "serve/responses/chat_completion_writer.h"
#include "serve/responses/responses_api_writer.h"
#include "serve/responses/text_completion_writer.h"

namespace neuronmm::serve {

ResponseSettings response_settings(const ServedModel& model, const GenerationParameters& fields,
                                   const GenerationContext& context, std::string_view id_prefix) {
  constexpr size_t kIdLength = 32;
  std::mt19937_64 random(context.random());
  ResponseSettings settings;
  settings.tokenizer = model.tokenizer;
  settings.id = random_id(id_prefix, kIdLength, random);
  settings.model = name_in_answer(model, fields.model);
  settings.fingerprint = model.system_fingerprint;
  settings.created = context.now;
  settings.choices = fields.n;
  settings.text = {.stop = fields.stop,
                   .include_stop = fields.include_stop_str_in_output,
                   .min_tokens = fields.min_tokens,
                   .skip_special_tokens = fields.skip_special_tokens};
  settings.stop_token_ids = fields.stop_token_ids;
  settings.stream = fields.stream;
  settings.include_usage = fields.include_usage;
  settings.continuous_usage = fields.continuous_usage;
  settings.logprobs = fields.logprobs.has_value();
  settings.return_token_ids = fields.return_token_ids;
  return settings;
}

ChatOutputSettings chat_settings(const ChatRequest& request, ToolSyntax syntax,
                                 const PromptReasoning& reasoning, uint64_t seed) {
  const text::Conversation& conversation = request.conversation;
  const Json& last = conversation.messages.back();
  ChatOutputSettings settings;
  settings.thinking = reasoning.state;
  settings.reasoning_tags = reasoning.tags;
  settings.continues_message = !conversation.continue_field.empty();
  if (request.parameters.echo && last["role"] == "assistant") settings.echo = last["content"];
  settings.id_seed = seed;
  if (conversation.tools.is_null()) return settings;
  settings.tools = syntax;
  settings.tool_list = std::make_shared<const std::vector<Tool>>(request.tools.tools);
  settings.forced_calls = request.tools.choice.forced();
  settings.named_call = request.tools.choice.name;
  settings.parallel_calls = request.tools.parallel && settings.named_call.empty();
  return settings;
}

PreparedGeneration prepared_generation(std::shared_ptr<ResponseWriter> writer,
                                       const ResponseSettings& settings,
                                       const GenerationParameters& fields) {
  PreparedGeneration generation;
  generation.id = settings.id;
  generation.stream = fields.stream;
  generation.listeners = ResponseWriter::listeners(writer);
  generation.writer = std::move(writer);
  generation.unknown_fields = fields.unknown_fields;
  return generation;
}

namespace {

// Returns the text that stands for a prompt in the response to a request with "echo".
std::string shown_prompt(const ServedModel& model, const TextOrTokens& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return model.tokenizer->decode(std::get<std::vector<TokenId>>(prompt));
}

// Returns the prompt of an answer that fills the place between a prompt and a suffix.
ApiResult<std::vector<TokenId>> middle_prompt(const ServedModel& model, const InfillTokens& marks,
                                              const TextOrTokens& prompt,
                                              const TextCompletionRequest& request) {
  const auto* text = std::get_if<std::string>(&prompt);
  NMM_ASSIGN(std::vector<TokenId> prefix, text == nullptr ? completion_prompt(model, prompt, false)
                                                          : code_tokens(model, *text, "prompt"));
  return infill_prompt(model, marks, std::move(prefix), request.suffix,
                       request.parameters.max_tokens);
}

struct TurnNames {
  const char *id_prefix, *prompt_param;
};

// Prepares the next turn of a chat. make_writer(response settings, chat settings, engine's request)
// returns the response's writer.
template <typename MakeWriter>
ApiResult<PreparedGeneration> prepare_turn(const ServedModel& model, const ChatRequest& request,
                                           const TurnNames& names, const GenerationContext& context,
                                           const MakeWriter& make_writer) {
  const GenerationParameters& fields = request.parameters;
  NMM_TRY(check_model(model, fields.model));
  const ToolSyntax syntax = call_syntax(model.tool_chats.tools, request);
  NMM_ASSIGN(
      const ChatPromptTokens prompt,
      chat_prompt(model, request.conversation, fields.add_special_tokens.value_or(false), syntax));
  NMM_TRY(check_prompt(model, prompt.tokens, fields.max_tokens, names.prompt_param));
  NMM_ASSIGN(Request submission,
             engine_request(model, fields, prompt.tokens, true, context.random));
  ResponseSettings settings = response_settings(model, fields, context, names.id_prefix);
  settings.prompts = {prompt.tokens};
  PreparedGeneration generation = prepared_generation(
      make_writer(settings, chat_settings(request, syntax, prompt.reasoning, context.random()),
                  submission),
      settings, fields);
  generation.requests.push_back(std::move(submission));
  generation.structured_output = structured_output(request, syntax, prompt.reasoning);
  generation.prompt_param = names.prompt_param;
  return generation;
}

}  // namespace

ApiResult<PreparedGeneration> prepare_chat_completion(const ServedModel& model,
                                                      std::string_view body,
                                                      const GenerationContext& context) {
  NMM_ASSIGN(const ChatRequest request, parse_chat_request(body));
  return prepare_turn(model, request, {"chatcmpl-", "messages"}, context,
                      [&](ResponseSettings settings, ChatOutputSettings chat, const Request&) {
                        return std::make_shared<ChatCompletionWriter>(
                            std::move(settings), std::move(chat), context.sink);
                      });
}

ApiResult<PreparedGeneration> prepare_responses_api(const ServedModel& model, std::string_view body,
                                                    const GenerationContext& context) {
  NMM_ASSIGN(ResponsesApiRequest request, parse_responses_api_request(body));
  return prepare_turn(
      model, request.chat, {"resp_", "input"}, context,
      [&](ResponseSettings settings, ChatOutputSettings chat, const Request& submission) {
        Json& echoed = request.echoed;
        echoed["temperature"] = submission.sampling.temperature;
        echoed["top_p"] = submission.sampling.top_p;
        return std::make_shared<ResponsesApiWriter>(std::move(settings), std::move(chat),
                                                    std::move(echoed), context.sink);
      });
}

ApiResult<PreparedGeneration> prepare_anthropic(const ServedModel& model, std::string_view body,
                                                const GenerationContext& context) {
  NMM_ASSIGN(const ChatRequest request, parse_anthropic_request(body));
  return prepare_turn(model, request, {"msg_", "messages"}, context,
                      [&](ResponseSettings settings, ChatOutputSettings chat, const Request&) {
                        return std::make_shared<AnthropicWriter>(std::move(settings),
                                                                 std::move(chat), context.sink);
                      });
}

ApiResult<PreparedGeneration> prepare_text_completion(const ServedModel& model,
                                                      std::string_view body,
                                                      const GenerationContext& context) {
  NMM_ASSIGN(const TextCompletionRequest request, parse_text_completion_request(body));
  const GenerationParameters& fields = request.parameters;
  NMM_TRY(check_model(model, fields.model));
  TextCompletionSettings completion;
  ResponseSettings settings = response_settings(model, fields, context, "cmpl-");
  std::vector<Request> requests;
  InfillTokens marks;
  if (!request.suffix.empty()) {
    NMM_ASSIGN(marks, find_infill_tokens(model, "suffix"));
  }
  for (const TextOrTokens& prompt : request.prompts) {
    NMM_ASSIGN(std::vector<TokenId> tokens,
               request.suffix.empty()
                   ? completion_prompt(model, prompt, fields.add_special_tokens.value_or(true))
                   : middle_prompt(model, marks, prompt, request));
    NMM_TRY(check_prompt(model, tokens, fields.max_tokens, "prompt"));
    if (fields.echo) completion.echo.push_back(shown_prompt(model, prompt));
    settings.prompts.push_back(tokens);
    NMM_ASSIGN(Request submission,
               engine_request(model, fields, std::move(tokens), false, context.random));
    if (!fields.ignore_eos)
      submission.stop_tokens.insert(submission.stop_tokens.end(), marks.stops.begin(),
                                    marks.stops.end());
    requests.push_back(std::move(submission));
  }
  auto writer =
      std::make_shared<TextCompletionWriter>(settings, std::move(completion), context.sink);
  PreparedGeneration generation = prepared_generation(std::move(writer), settings, fields);
  generation.requests = std::move(requests);
  generation.structured_output = structured_output(fields.response_format);
  generation.prompt_param = "prompt";
  return generation;
}

ApiResult<std::vector<RequestId>> submit(PreparedGeneration generation, EngineInterface& engine,
                                         int64_t retry_after_s) {
  std::vector<RequestId> ids;
  for (size_t i = 0; i < generation.requests.size(); ++i) {
    const Admission admission =
        engine.submit(std::move(generation.requests[i]), generation.listeners[i]);
    if (!admission.refusal) {
      ids.push_back(admission.id);
      continue;
    }
    generation.writer->close();
    for (const RequestId id : ids) engine.cancel(id);
    return refusal_error(*admission.refusal, admission.message, generation.prompt_param,
                         retry_after_s);
  }
  return ids;
}

}  // namespace neuronmm::serve
