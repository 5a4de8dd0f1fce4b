#include "serve/schema/schema_compiler.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "serve/grammar/pattern.h"
#include "serve/grammar/pattern_syntax.h"
#include "serve/schema/json_syntax.h"
#include "serve/schema/schema_lowering.h"
#include "text/unicode/utf8.h"

namespace neuronmm::grammar {
namespace {

constexpr std::string_view kNoDocument = "no document satisfies the schema";

// A schema that is being compiled. All schemas share one grammar.
struct SchemaBeingCompiled {
  SchemaBeingCompiled(SchemaDocument read, const LoweringSettings& settings, Grammar& grammar,
                      JsonSyntax& syntax)
      : document(std::move(read)), lowering(document, settings, grammar, syntax) {}

  SchemaDocument document;
  SchemaLowering lowering;
  RuleId rule = -1;
};

// Two branches of a oneOf. They share values if the end of the rule `common_rule` can be reached.
struct ComparedBranches {
  const SchemaBeingCompiled* schema;
  BranchPair pair;
  RuleId common_rule;  // reads a value that both branches allow; -1 if they were not compared
};

class SequenceCompiler {
 public:
  SequenceCompiler(const LoweringSettings& settings, Budget& budget)
      : settings_(settings), budget_(budget), grammar_(budget), syntax_(grammar_, budget) {}

  Result<CompiledGrammar> run(const RepeatedSequences& sequences) {
    const RuleId root = grammar_.add_rule(), one = grammar_.add_rule();
    grammar_.set_root(root);
    for (const Sequence& sequence : sequences.alternatives) NMM_TRY(add(sequence, one));
    repeat(sequences, one, root);
    if (sequences.alternative_document) NMM_TRY(add({*sequences.alternative_document}, root));
    NMM_TRY(build());
    if (grammar_.too_large()) return fail("the grammar has more than {} edges", Grammar::kMaxEdges);
    if (!budget_.allocate(kSearchBytesPerEdge * (grammar_.positions() + grammar_.edges())))
      return budget_.error();
    ByteSet all;
    all.set();
    const std::vector<int32_t> depths = minimum_call_depths(grammar_, all);
    budget_.release(kSearchBytesPerEdge * (grammar_.positions() + grammar_.edges()));
    NMM_TRY(check_possible(depths));
    std::vector<std::string> notes_on_excess = notes(depths);
    if (!budget_.ok()) return budget_.error();
    grammar_.keep();
    return CompiledGrammar{std::move(grammar_), std::move(notes_on_excess)};
  }

  // Returns whether run() failed because the grammar was too large and fewer counted states might
  // make it fit.
  bool may_fit() const {
    return grammar_.too_large() && std::ranges::any_of(schemas_, [](const auto& schema) {
             return schema->lowering.counts_approximately();
           });
  }
  // Returns the pairs of branches of oneOf that were found to share values.
  const std::set<BranchAddresses>& shared() const { return shared_; }

 private:
  Status add(const Sequence& sequence, RuleId rule) {
    const auto [start, end] = grammar_.rule(rule);
    PositionId at = start;
    for (const auto& part : sequence) {
      const PositionId next = grammar_.add_position();
      if (const auto* text = std::get_if<std::string>(&part)) {
        grammar_.add_text(at, *text, next);
      } else {
        NMM_ASSIGN(const RuleId schema, add(std::get<SchemaPart>(part)));
        grammar_.add_call(at, schema, next);
      }
      at = next;
    }
    grammar_.add_empty(at, end);
    return {};
  }

  Result<RuleId> add(const SchemaPart& part) {
    const Budget::Part reading(budget_, [&] { return part.source; });
    NMM_ASSIGN(SchemaDocument document, SchemaDocument::read(*part.schema, part.source, budget_));
    document.set_closes_empty(part.closes_empty);
    schemas_.push_back(
        std::make_unique<SchemaBeingCompiled>(std::move(document), settings_, grammar_, syntax_));
    SchemaBeingCompiled& schema = *schemas_.back();
    schema.rule = schema.lowering.rule_of({part.schema});
    return schema.rule;
  }

  void repeat(const RepeatedSequences& sequences, RuleId one, RuleId root) {
    const auto [start, end] = grammar_.rule(root);
    PositionId at = grammar_.add_position();
    const PositionId last = grammar_.add_position();
    grammar_.add_text(start, sequences.before, at);
    grammar_.add_text(last, sequences.after, end);
    for (int64_t i = 0; i < sequences.maximum && !grammar_.too_large(); ++i) {
      if (i >= sequences.minimum) grammar_.add_empty(at, last);
      const PositionId item = grammar_.add_position(), next = grammar_.add_position();
      grammar_.add_text(at, i == 0 ? "" : sequences.between, item);
      grammar_.add_call(item, one, next);
      at = next;
    }
    grammar_.add_empty(at, last);
  }

  // Builds the rules of all schemas. For each pair of branches of a oneOf, also builds the rule of
  // the values that both allow.
  Status build() {
    for (const auto& schema : schemas_) {
      NMM_TRY(schema->lowering.run());
      for (size_t i = 0; i < schema->lowering.branch_pairs().size(); ++i) {
        const BranchPair pair = schema->lowering.branch_pairs()[i];
        RuleId common_rule = -1;
        if (pair.first != pair.second) {
          common_rule = schema->lowering.rule_of({pair.first, pair.second});
          NMM_TRY(schema->lowering.run());
        }
        compared_.push_back({schema.get(), pair, common_rule});
      }
    }
    return {};
  }

  Status check_possible(const std::vector<int32_t>& depths) const {
    for (const auto& schema : schemas_) {
      if (depths[static_cast<size_t>(grammar_.rule(schema->rule).start)] != kUnreachable) continue;
      const std::string& reason = schema->lowering.contradiction();
      if (reason.empty()) return fail("{}: every one would have to be endless", kNoDocument);
      return fail("{}: {}", kNoDocument, reason);
    }
    return {};
  }

  std::vector<std::string> notes(const std::vector<int32_t>& depths) {
    std::map<const Json*, std::string> found;
    for (const ComparedBranches& compared : compared_) {
      if (!budget_.spend(kStepsPerNote)) break;
      const bool overlap =
          compared.common_rule < 0 ||
          depths[static_cast<size_t>(grammar_.rule(compared.common_rule).start)] != kUnreachable;
      if (!overlap) continue;
      if (compared.common_rule >= 0) shared_.emplace(compared.pair.first, compared.pair.second);
      const std::string what =
          compared.common_rule < 0
              ? "its branches share values, or are too many to compare; it is taken as anyOf"
              : fmt::format("a value can be in {} and in {}; it is taken as anyOf",
                            compared.schema->document.path(*compared.pair.first),
                            compared.schema->document.path(*compared.pair.second));
      found.try_emplace(
          compared.pair.schema,
          compared.schema->document.error_at(*compared.pair.schema, "oneOf", what).message);
    }
    std::vector<std::string> texts;
    for (auto& [schema, text] : found) texts.push_back(std::move(text));
    for (const auto& schema : schemas_)
      texts.insert(texts.end(), schema->lowering.notes().begin(), schema->lowering.notes().end());
    if (texts.size() > kMostNotes) {
      const size_t more = texts.size() - kMostNotes;
      texts.resize(kMostNotes);
      texts.push_back(fmt::format("{} more notes", more));
    }
    return texts;
  }

  // The most notes that are kept. A header has no room for more.
  static constexpr size_t kMostNotes = 50;
  static constexpr int64_t kStepsPerNote = 100;  // of the budget. Assumed
  // The memory of minimum_call_depths() for a position and for an edge, in bytes. Assumed.
  static constexpr int64_t kSearchBytesPerEdge = 24;

  const LoweringSettings& settings_;
  Budget& budget_;
  std::set<BranchAddresses> shared_;
  Grammar grammar_;
  JsonSyntax syntax_;
  std::vector<std::unique_ptr<SchemaBeingCompiled>> schemas_;
  std::vector<ComparedBranches> compared_;
};

// The numbers of states that are tried, one after the other, for strings whose characters cannot be
// counted exactly. With more states, strings may be longer, but fewer automata fit into the
// grammar. Assumed: most schemas have at most one such string, and some have dozens.
constexpr int64_t kCountedStates[] = {32'768, 2'048};

// Compiles with up to three attempts. The memory of an attempt is given back before the next one.
Result<CompiledGrammar> compile_within(const RepeatedSequences& sequences,
                                       const SchemaOptions& options, Budget& budget) {
  LoweringSettings settings;
  settings.closed_objects = options.closed_objects;
  std::optional<Result<CompiledGrammar>> compiled;
  const int64_t bytes_before = budget.bytes();
  const auto release_all_since = [&] { budget.release(budget.bytes() - bytes_before); };
  for (const int64_t states : kCountedStates) {
    settings.counted_states = states;
    release_all_since();
    SequenceCompiler compiler(settings, budget);
    compiled = compiler.run(sequences);
    if (compiled->ok()) {
      settings.exclusive = compiler.shared();
      break;
    }
    if (!compiler.may_fit() || !budget.ok()) break;
  }
  if (settings.exclusive.empty()) return std::move(*compiled);
  // The branches of oneOf that share values are known now. The second run takes these values out,
  // or notes where it cannot.
  release_all_since();
  budget.allocate((*compiled)->grammar.bytes());
  auto exclusive = SequenceCompiler(settings, budget).run(sequences);
  const bool is_known = exclusive.ok() || exclusive.error().message.starts_with(kNoDocument);
  return is_known ? std::move(exclusive) : std::move(*compiled);
}

Result<StringLanguage> compile_whole_pattern(std::string_view pattern, Budget& budget) {
  // The pattern is first parsed by itself. Otherwise an extra parenthesis would close the group
  // that is added around it, and the places in messages would not be the user's.
  NMM_TRY(parse_pattern(pattern, budget));
  return compile_pattern(fmt::format("^(?:{})$", pattern), budget);
}

// Returns the beginning of a pattern for messages.
std::string excerpt(std::string_view pattern) {
  constexpr size_t kLongest = 60;
  if (pattern.size() <= kLongest) return fmt::format("{:?}", pattern);
  pattern = pattern.substr(0, kLongest);
  return fmt::format("{:?}...",
                     pattern.substr(0, static_cast<size_t>(text::valid_utf8_length(pattern))));
}

}  // namespace

Result<CompiledGrammar> compile_sequences(const RepeatedSequences& sequences,
                                          const SchemaOptions& options) {
  Budget own;
  Budget& budget = options.budget == nullptr ? own : *options.budget;
  auto compiled = compile_within(sequences, options, budget);
  if (!budget.ok()) return budget.error();
  return compiled;
}

Result<CompiledGrammar> compile_schema(const Json& schema, const std::string& source,
                                       const SchemaOptions& options) {
  return compile_sequences(
      {.alternatives = {{SchemaPart{&schema, source}}}, .before = {}, .between = {}, .after = {}},
      options);
}

Result<CompiledGrammar> compile_text(std::string_view pattern, const std::string& source,
                                     Budget* budget_of_request) {
  Budget own;
  Budget& budget = budget_of_request == nullptr ? own : *budget_of_request;
  const Budget::Part part(budget, [&] { return fmt::format("{}: {}", source, excerpt(pattern)); });
  const auto language = compile_whole_pattern(pattern, budget);
  if (!budget.ok()) return budget.error();
  if (!language.ok()) return fail("{}: {}", source, language.error().message);
  if (language->empty()) return fail("{}: no text matches it", source);
  CompiledGrammar compiled{Grammar(budget), {}};
  const RuleId root = compiled.grammar.add_rule();
  const auto [start, end] = compiled.grammar.rule(root);
  JsonSyntax(compiled.grammar, budget).add_text_of(start, *language, end);
  compiled.grammar.set_root(root);
  if (!budget.ok()) return budget.error();
  if (compiled.grammar.too_large()) return fail("{}: {}", source, kAutomatonTooLarge);
  compiled.grammar.keep();
  return compiled;
}

}  // namespace neuronmm::grammar
