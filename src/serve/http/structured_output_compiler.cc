#include "serve/http/structured_output_compiler.h"

#include <algorithm>
#include <utility>

#include "serve/grammar/gbnf.h"
#include "serve/grammar/matcher.h"
#include "serve/requests/json_body.h"
#include "serve/schema/schema_compiler.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::serve {
namespace {

using grammar::Budget;
using grammar::CompiledGrammar;
using grammar::TokenMasks;

// Compiled grammars in the cache, and the bytes that they take together. Assumed.
constexpr int64_t kGrammars = 32, kCacheBytes = int64_t{128} << 20;
constexpr int64_t kMaskBytes = int64_t{16}
                               << 20;  // limit for the cached states and masks of one grammar
// The bytes that the grammars of one client's unfinished answers may take. Most take less than 1
// MiB.
constexpr int64_t kClientBytes = int64_t{256} << 20;
constexpr int64_t kMostCalls = 16;  // calls in one answer
// The budget of Effort::kQuick, about 20 ms. Measured: it suffices for 10,837 of
// MaskBench's 11,305 schemas (docs/reference/json_schema.md).
constexpr grammar::BudgetLimits kQuickLimits = {.steps = 2'000'000, .bytes = int64_t{32} << 20};

grammar::SchemaOptions schema_options(Budget& budget) {
  return {.closed_objects = true, .budget = &budget};
}

grammar::RepeatedSequences sequences_of(const ToolCallFormat& calls) {
  grammar::RepeatedSequences sequences;
  sequences.before = calls.begin;
  sequences.between = calls.between;
  sequences.after = calls.end;
  sequences.maximum = calls.several ? kMostCalls : 1;
  for (const Tool& tool : calls.functions)
    sequences.alternatives.push_back(
        {calls.before_name + tool.name + calls.before_arguments,
         grammar::SchemaPart{&tool.parameters, "tools: the parameters of " + tool.name},
         calls.after_arguments});
  return sequences;
}

// Compiles the grammar of a JSON document, or of a document or tool calls if the request has tools.
// If the schema of a tool's parameters cannot be enforced, the document is still possible. The
// grammar then allows no calls, and a note gives the reason.
Result<CompiledGrammar> compile_json(const Json& schema, const StructuredOutput& output,
                                     Budget& budget) {
  const grammar::SchemaOptions options = schema_options(budget);
  if (output.calls.functions.empty()) return grammar::compile_schema(schema, output.param, options);
  grammar::RepeatedSequences sequences = sequences_of(output.calls);
  sequences.alternative_document = grammar::SchemaPart{&schema, output.param};
  auto document_or_calls = grammar::compile_sequences(sequences, options);
  if (document_or_calls.ok() || !budget.ok()) return document_or_calls;
  NMM_ASSIGN(CompiledGrammar document_only, grammar::compile_schema(schema, output.param, options));
  document_only.notes.push_back("nothing can be called: " + document_or_calls.error().message);
  return document_only;
}

// Returns what a grammar of GBNF may name: the tokens of the model that do not end an answer.
grammar::GbnfVocabulary gbnf_vocabulary(const text::Tokenizer& tokenizer,
                                        const grammar::TokenVocabulary& vocabulary) {
  return {.token_of = [&](std::string_view text) -> std::optional<TokenId> {
            const auto ids = tokenizer.encode(text, {.add_special_tokens = false});
            return ids.ok() && ids->size() == 1 ? std::optional(ids->front()) : std::nullopt;
          },
          .may_occur =
              [&](TokenId id) {
                return id < std::min(vocabulary.size(), tokenizer.vocab_size()) &&
                       !vocabulary.is_stop(id);
              }};
}

Result<CompiledGrammar> compile_grammar(const StructuredOutput& output,
                                        const grammar::GbnfVocabulary& vocabulary, Budget& budget) {
  switch (output.kind) {
    case StructuredOutput::Kind::kJsonSchema:
      return compile_json(output.schema, output, budget);
    case StructuredOutput::Kind::kPattern:
      return grammar::compile_text(output.pattern, output.param, &budget);
    case StructuredOutput::Kind::kGrammar:
      return grammar::compile_gbnf(output.pattern, output.param, vocabulary, &budget);
    case StructuredOutput::Kind::kToolCalls:
      return grammar::compile_sequences(sequences_of(output.calls), schema_options(budget));
    case StructuredOutput::Kind::kText:
    case StructuredOutput::Kind::kJsonObject:
      break;
  }
  return compile_json({{"type", "object"}}, output, budget);
}

std::string cache_key(const StructuredOutput& output) {
  const ToolCallFormat& calls = output.calls;
  Json key = {static_cast<int>(output.kind),
              output.schema,
              output.pattern,
              calls.begin,
              calls.before_name,
              calls.before_arguments,
              calls.after_arguments,
              calls.between,
              calls.end,
              calls.several};
  for (const Tool& tool : calls.functions) key.push_back({tool.name, tool.parameters});
  return dump_json(key);
}

std::vector<TokenId> known_tokens(const text::Tokenizer& tokenizer,
                                  const std::vector<std::string>& texts) {
  std::vector<TokenId> ids;
  for (const std::string& text : texts) {
    if (const auto id = tokenizer.token_to_id(text)) ids.push_back(*id);
  }
  return ids;
}

}  // namespace

StructuredOutputCompiler::StructuredOutputCompiler(const ServedModel& model)
    : tokenizer_(*model.tokenizer),
      thought_tokens_{model.tokenizer->token_to_id("<think>"),
                      model.tokenizer->token_to_id("</think>")},
      cache_(kGrammars, kCacheBytes) {
  std::vector<TokenId> stops = model.stop_tokens;
  const auto end = model.tokenizer->eos_id();
  if (end && *end < model.vocab_size && std::ranges::count(stops, *end) == 0) stops.push_back(*end);
  vocabulary_ = std::make_shared<grammar::TokenVocabulary>(
      *model.tokenizer, std::move(stops), model.vocab_size,
      known_tokens(*model.tokenizer, special_tokens_of(model.tool_chats.tools)));
}

ApiResult<std::optional<StructuredOutputCompiler::Constraint>> StructuredOutputCompiler::compile(
    const StructuredOutput& output, const std::string& client, Effort effort,
    const std::atomic<bool>& cancelled) {
  if (output.kind == StructuredOutput::Kind::kText) return std::optional(Constraint());
  Budget budget(effort == Effort::kQuick ? kQuickLimits : grammar::BudgetLimits(),
                [&] { return cancelled || stopped_; });
  const auto make = [&]() -> Result<std::shared_ptr<TokenMasks>> {
    NMM_ASSIGN(CompiledGrammar compiled,
               compile_grammar(output, gbnf_vocabulary(tokenizer_, *vocabulary_), budget));
    return TokenMasks::make(std::move(compiled), vocabulary_, kMaskBytes, &budget);
  };
  const std::string key = cache_key(output);
  if (cache_.find(key) == nullptr && cache_.bytes_of(client) > kClientBytes)
    return queue_full("The output formats of your unfinished requests take too much memory.", 1);
  const auto masks = cache_.get(key, client, make);
  if (!masks.ok()) {
    if (budget.cancelled())
      return unavailable("cancelled", "The server does not take requests any more.");
    if (budget.exceeded() && effort == Effort::kQuick) return std::optional<Constraint>();
    const bool calls = output.kind == StructuredOutput::Kind::kToolCalls;
    return invalid_request(calls ? "tools" : output.param, masks.error().message);
  }
  Factory factory = [masks = *masks, vocabulary = vocabulary_, tokens = thought_tokens_,
                     thinking = output.thinking]() -> std::unique_ptr<model::TokenConstraint> {
    auto matcher = std::make_unique<grammar::Matcher>(masks);
    // A grammar that names the tokens around thoughts says itself where thoughts are.
    const bool has_own_thoughts =
        (tokens.begin && masks->names(*tokens.begin)) || (tokens.end && masks->names(*tokens.end));
    if (thinking == Thinking::kNone || has_own_thoughts) return matcher;
    return constrain_after_thoughts(std::move(matcher), *vocabulary, tokens,
                                    thinking == Thinking::kOpened);
  };
  return std::optional(Constraint{std::move(factory), (*masks)->notes()});
}

}  // namespace neuronmm::serve
