#include "serve/grammar/gbnf.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "serve/grammar/automaton.h"
#include "serve/grammar/gbnf_syntax.h"
#include "serve/grammar/left_recursion.h"
#include "serve/grammar/token_symbols.h"
#include "serve/grammar/utf8_edges.h"

namespace neuronmm::grammar {
namespace {

// Returns the id in "<[1000]>"; nothing if the text has another form.
std::optional<text::TokenId> written_id(std::string_view token) {
  if (!token.starts_with("<[") || !token.ends_with("]>")) return std::nullopt;
  const std::string_view digits = token.substr(2, token.size() - 4);
  text::TokenId id = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  const bool good = problem == std::errc() && end == digits.data() + digits.size() && id >= 0;
  return good ? std::optional(id) : std::nullopt;
}

// Returns the ids of the tokens that the grammar names, by their numbers.
Result<std::vector<text::TokenId>> find_tokens(const std::vector<std::string>& names,
                                               const GbnfVocabulary& vocabulary) {
  if (names.size() > kMostNamedTokens)
    return fail("expected at most {} tokens, found {}", kMostNamedTokens, names.size());
  std::vector<text::TokenId> ids;
  for (const std::string& name : names) {
    auto id = written_id(name);
    if (!id) id = vocabulary.token_of(name);
    if (!id) return fail("{} is not one token of the model", name);
    if (!vocabulary.may_occur(*id))
      return fail("{} ends the answer, or the model has no such token", name);
    ids.push_back(*id);
  }
  return ids;
}

// Adds the positions and edges of all rules to a grammar.
class GbnfBuilder {
 public:
  // `tokens` are the named tokens, sorted, and `ids` the tokens by their numbers in the syntax.
  GbnfBuilder(Grammar& grammar, const std::vector<text::TokenId>& tokens,
              const std::vector<text::TokenId>& ids, Budget& budget)
      : grammar_(grammar), characters_(grammar), tokens_(tokens), ids_(ids), budget_(budget) {}

  void add_rules(const std::vector<GbnfRule>& rules) {
    for (size_t i = 0; i < rules.size(); ++i) {
      rules_.push_back(grammar_.add_rule());
      owners_.push_back(i);
    }
    for (size_t i = 0; i < rules.size() && !is_done(); ++i) {
      owner_ = i;
      const auto [start, end] = grammar_.rule(rules_[i]);
      add(rules[i].body, start, end);
    }
  }
  RuleId rule(size_t number) const { return rules_[number]; }
  // Returns the number of the rule in the syntax that the grammar's rule is a part of.
  size_t owner(RuleId rule) const { return owners_[static_cast<size_t>(rule)]; }

 private:
  bool is_done() const { return grammar_.too_large() || !budget_.ok(); }

  void add(const GbnfNode& node, PositionId from, PositionId to) {
    if (is_done()) return;
    switch (node.kind) {
      case GbnfKind::kText:
        return grammar_.add_text(from, node.text, to);
      case GbnfKind::kCharacter:
        for (const CharacterRange range : node.set.ranges()) characters_.add(from, range, to);
        return;
      case GbnfKind::kRule:
        return grammar_.add_call(from, rules_[node.number], to);
      case GbnfKind::kToken:
        return add_token(ids_[node.number], node.negative, from, to);
      case GbnfKind::kAlternatives:
        for (const GbnfNode& child : node.children) add(child, from, to);
        return;
      case GbnfKind::kSequence:
        return add_sequence(node.children, from, to);
      case GbnfKind::kRepeat:
        return add_repeat(node, from, to);
    }
  }

  void add_sequence(const std::vector<GbnfNode>& items, PositionId from, PositionId to) {
    if (items.empty()) return grammar_.add_empty(from, to);
    for (const GbnfNode& item : items) {
      const PositionId next = &item == &items.back() ? to : grammar_.add_position();
      add(item, from, next);
      from = next;
    }
  }

  void add_token(text::TokenId token, bool negative, PositionId from, PositionId to) {
    const size_t own =
        1 + static_cast<size_t>(std::ranges::lower_bound(tokens_, token) - tokens_.begin());
    if (!negative) return grammar_.add_text(from, symbol_text(own), to);
    for (size_t symbol = 0; symbol <= tokens_.size(); ++symbol) {
      if (symbol != own) grammar_.add_text(from, symbol_text(symbol), to);
    }
  }

  // An item that comes several times becomes a rule, so that nested counts do not multiply.
  void add_repeat(const GbnfNode& node, PositionId from, PositionId to) {
    const GbnfNode& item = node.children.front();
    const bool once = node.minimum <= 1 && node.maximum.value_or(1) <= 1;
    const RuleId rule = once ? -1 : rule_of(item);
    const auto add_item = [&](PositionId begin, PositionId end) {
      if (once) return add(item, begin, end);
      grammar_.add_call(begin, rule, end);
    };
    const int64_t before_loop =
        node.maximum ? node.minimum : std::max<int64_t>(node.minimum - 1, 0);
    for (int64_t i = 0; i < before_loop && !is_done(); ++i) {
      const bool is_last = node.maximum && i + 1 == *node.maximum;
      const PositionId next = is_last ? to : grammar_.add_position();
      add_item(from, next);
      from = next;
    }
    if (node.maximum == node.minimum && node.minimum > 0) return;
    if (!node.maximum) {
      const PositionId head = grammar_.add_position();
      const PositionId tail = node.minimum > 0 ? grammar_.add_position() : head;
      grammar_.add_empty(from, head);
      add_item(head, tail);
      if (tail != head) grammar_.add_empty(tail, head);
      return grammar_.add_empty(tail, to);
    }
    for (int64_t i = node.minimum; i < *node.maximum && !is_done(); ++i) {
      grammar_.add_empty(from, to);
      const PositionId next = i + 1 == *node.maximum ? to : grammar_.add_position();
      add_item(from, next);
      from = next;
    }
    if (*node.maximum == 0) grammar_.add_empty(from, to);
  }

  RuleId rule_of(const GbnfNode& item) {
    if (item.kind == GbnfKind::kRule) return rules_[item.number];
    const RuleId rule = grammar_.add_rule();
    owners_.push_back(owner_);
    const auto [start, end] = grammar_.rule(rule);
    add(item, start, end);
    return rule;
  }

  Grammar& grammar_;
  Utf8Edges characters_;
  const std::vector<text::TokenId>&tokens_, &ids_;
  Budget& budget_;
  std::vector<RuleId> rules_;   // by number
  std::vector<size_t> owners_;  // by rule of the grammar
  size_t owner_ = 0;            // of the rules that are being added
};

// Returns an error that names the rules of a left recursion, if there is one.
Status check_recursion(const Grammar& grammar, const GbnfBuilder& builder,
                       const std::vector<GbnfRule>& rules) {
  constexpr size_t kShown = 8;  // rules in the message
  const std::vector<RuleId> circle = find_left_recursion(grammar);
  if (circle.empty()) return {};
  const GbnfRule& first = rules[builder.owner(circle.front())];
  std::string names = first.name;
  for (size_t i = 1; i < std::min(circle.size(), kShown); ++i)
    names += ", " + rules[builder.owner(circle[i])].name;
  return fail("line {}: the rule {} may begin with itself (left recursion: {}, {})", first.line,
              first.name, names, circle.size() > kShown ? "..." : first.name);
}

Result<CompiledGrammar> build(GbnfSyntax syntax, const GbnfVocabulary& vocabulary, Budget& budget) {
  const auto root = std::ranges::find(syntax.rules, "root", &GbnfRule::name);
  if (root == syntax.rules.end())
    return fail("expected a rule named root, found {}", syntax.rules.front().name);
  NMM_ASSIGN(const std::vector<text::TokenId> ids, find_tokens(syntax.tokens, vocabulary));
  CompiledGrammar compiled{Grammar(budget), std::move(syntax.notes)};
  Grammar& grammar = compiled.grammar;
  std::vector<text::TokenId> tokens = ids;
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  GbnfBuilder builder(grammar, tokens, ids, budget);
  builder.add_rules(syntax.rules);
  if (!budget.ok()) return budget.error();
  if (grammar.too_large()) return fail("{}", kAutomatonTooLarge);
  budget.spend(8 * grammar.edges());
  NMM_TRY(check_recursion(grammar, builder, syntax.rules));
  const RuleId start = builder.rule(static_cast<size_t>(root - syntax.rules.begin()));
  grammar.set_root(start);
  grammar.set_named_tokens(std::move(tokens));
  const std::vector<int32_t> depths = minimum_call_depths(grammar, ByteSet().set());
  const int32_t depth = depths[static_cast<size_t>(grammar.rule(start).start)];
  if (depth == kUnreachable)
    return fail("line {}: the rule root has no text that ends", root->line);
  if (depth > Automaton::kMaxDepth)
    return fail("line {}: every text of the rule root nests rules more than {} deep", root->line,
                Automaton::kMaxDepth);
  grammar.keep();
  return compiled;
}

}  // namespace

Result<CompiledGrammar> compile_gbnf(std::string_view text, const std::string& source,
                                     const GbnfVocabulary& vocabulary, Budget* budget_of_request) {
  Budget own;
  Budget& budget = budget_of_request == nullptr ? own : *budget_of_request;
  const Budget::Part part(budget, [&] { return source; });
  auto syntax = parse_gbnf(text, budget);
  if (!budget.ok()) return budget.error();
  if (!syntax.ok()) return fail("{}: {}", source, syntax.error().message);
  auto compiled = build(std::move(syntax).value(), vocabulary, budget);
  if (!budget.ok()) return budget.error();
  if (!compiled.ok()) return fail("{}: {}", source, compiled.error().message);
  return compiled;
}

}  // namespace neuronmm::grammar
