#include "serve/protocol/llama_cpp_completion.h"

#include <algorithm>
#include <utility>

#include "serve/protocol/infill.h"
#include "serve/protocol/llama_cpp_settings.h"
#include "serve/protocol/prepared_parts.h"
#include "serve/protocol/prompt.h"
#include "serve/responses/llama_cpp_writer.h"

namespace neuronmm::serve {
namespace {

ApiResult<std::vector<model::LogitBias>> token_biases(const ServedModel& model,
                                                      const std::vector<TextBias>& biases) {
  std::vector<model::LogitBias> list;
  for (const TextBias& bias : biases) {
    NMM_ASSIGN(const std::vector<TokenId> ids,
               mixed_tokens(model, {bias.token}, "logit_bias", false, false));
    for (const TokenId id : ids) list.push_back({id, bias.bias});
  }
  return list;
}

LlamaCppSettings own_settings(const ServedModel& model, const LlamaCppRequest& request) {
  LlamaCppSettings own;
  own.return_tokens = request.return_tokens;
  own.timings_per_token = request.timings_per_token;
  own.return_progress = request.return_progress;
  own.id_slot = std::max<int64_t>(request.id_slot, 0);
  own.n_indent = request.n_indent;
  own.t_max_predict_ms = request.t_max_predict_ms;
  own.context_tokens = model.context_tokens;
  own.response_fields = request.response_fields;
  return own;
}

// Prepares the answers to prompts. `stops` are tokens that end an answer in addition to the
// model's.
ApiResult<PreparedGeneration> prepare_answers(const ServedModel& model, LlamaCppRequest request,
                                              std::vector<std::vector<TokenId>> prompts,
                                              const std::vector<TokenId>& stops,
                                              const GenerationContext& context) {
  GenerationParameters& fields = request.parameters;
  fill_llama_cpp_defaults(model.generation, request);
  NMM_ASSIGN(fields.logit_bias, token_biases(model, request.logit_bias));
  if (!request.cache_prompt) fields.cache_salt = fmt::format("no cache {}", context.random());
  ResponseSettings settings = response_settings(model, fields, context, "cmpl-");
  LlamaCppSettings own = own_settings(model, request);
  // A seed that every client can read back exactly, which is not the one that means "random".
  const RandomSource short_random = [&] { return context.random() % UINT32_MAX; };
  std::vector<Request> submissions;
  for (std::vector<TokenId>& prompt : prompts) {
    NMM_TRY(check_prompt(model, prompt, fields.max_tokens, "prompt"));
    own.prompt_texts.push_back(model.tokenizer->decode(prompt));
    settings.prompts.push_back(prompt);
    NMM_ASSIGN(Request submission,
               engine_request(model, fields, std::move(prompt), true, short_random));
    if (!fields.ignore_eos)
      submission.stop_tokens.insert(submission.stop_tokens.end(), stops.begin(), stops.end());
    own.generation_settings.push_back(llama_cpp_settings_json(model, request, submission));
    submissions.push_back(std::move(submission));
  }
  auto writer = std::make_shared<LlamaCppWriter>(settings, std::move(own), context.sink);
  PreparedGeneration generation = prepared_generation(std::move(writer), settings, fields);
  generation.requests = std::move(submissions);
  generation.structured_output = structured_output(fields.response_format);
  generation.prompt_param = "prompt";
  return generation;
}

// Returns the tokens of the other files and what separates them, as llama.cpp has it: the name of a
// repository, and a name before each file, if the model has tokens for these.
ApiResult<std::vector<TokenId>> repository_tokens(const ServedModel& model,
                                                  const InfillTokens& marks,
                                                  const std::vector<InfillFile>& files) {
  constexpr const char* kSnippet = "\n\n--- snippet ---\n\n";
  std::vector<TokenId> tokens;
  const auto add = [&](std::optional<TokenId> mark, const std::string& text) -> ApiResult<bool> {
    if (mark) tokens.push_back(*mark);
    NMM_ASSIGN(const std::vector<TokenId> ids, code_tokens(model, text, "input_extra"));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    return true;
  };
  if (marks.repository) NMM_TRY(add(marks.repository, "myproject\n"));
  for (const InfillFile& file : files) {
    NMM_TRY(add(marks.file, marks.file ? file.name + "\n" : kSnippet));
    NMM_TRY(add({}, file.text));
  }
  if (marks.file) NMM_TRY(add(marks.file, "filename\n"));
  return tokens;
}

}  // namespace

ApiResult<PreparedGeneration> prepare_llama_cpp_completion(const ServedModel& model,
                                                           std::string_view body,
                                                           const GenerationContext& context) {
  NMM_ASSIGN(LlamaCppRequest request, parse_llama_cpp_completion(body));
  NMM_TRY(check_model(model, request.parameters.model));
  const bool add_begin = request.parameters.add_special_tokens.value_or(true);
  std::vector<std::vector<TokenId>> prompts;
  for (const MixedText& prompt : request.prompts) {
    NMM_ASSIGN(std::vector<TokenId> tokens, mixed_tokens(model, prompt, "prompt", true, add_begin));
    prompts.push_back(std::move(tokens));
  }
  return prepare_answers(model, std::move(request), std::move(prompts), {}, context);
}

ApiResult<PreparedGeneration> prepare_llama_cpp_infill(const ServedModel& model,
                                                       std::string_view body,
                                                       const GenerationContext& context) {
  NMM_ASSIGN(LlamaCppRequest request, parse_llama_cpp_infill(body));
  NMM_TRY(check_model(model, request.parameters.model));
  NMM_ASSIGN(const InfillTokens marks, find_infill_tokens(model, "input_suffix"));
  InfillParts parts;
  NMM_ASSIGN(parts.prefix, mixed_tokens(model, request.input_prefix, "input_prefix", false, false));
  NMM_ASSIGN(parts.suffix, mixed_tokens(model, request.input_suffix, "input_suffix", false, false));
  NMM_ASSIGN(parts.begin, mixed_tokens(model, request.prompts.front(), "prompt", true, false));
  NMM_ASSIGN(parts.repository, repository_tokens(model, marks, request.input_extra));
  const InfillLimits limits =
      llama_cpp_infill_limits(model.context_tokens, std::ssize(parts.begin),
                              request.parameters.max_tokens.value_or(kNoTokenLimit));
  std::vector<TokenId> prompt = infill_prompt(model, marks, std::move(parts), limits);
  return prepare_answers(model, std::move(request), {std::move(prompt)}, marks.stops, context);
}

ApiResult<PreparedGeneration> prepare_either_completion(const ServedModel& model,
                                                        std::string_view body,
                                                        const GenerationContext& context) {
  constexpr const char* kOwnField = "n_predict";
  if (body.find(kOwnField) != std::string_view::npos) {
    const auto root = parse_body(body);
    if (root.ok() && root->contains(kOwnField))
      return prepare_llama_cpp_completion(model, body, context);
  }
  return prepare_text_completion(model, body, context);
}

}  // namespace neuronmm::serve
