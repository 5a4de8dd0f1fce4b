#include "serve/schema/unique_array_lowering.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "serve/schema/literal_syntax.h"

namespace neuronmm::grammar {
namespace {

using UniqueLiterals = std::vector<const Json*>;

const Json kNull = nullptr;

// The memory of a constant in the tables of an array. Assumed.
constexpr int64_t kConstantBytes = 120;

// Returns the values without those that equal an earlier one.
UniqueLiterals distinct(const UniqueLiterals& values) {
  std::set<std::string> texts;
  UniqueLiterals left;
  for (const Json* value : values) {
    if (texts.insert(canonical_text(*value)).second) left.push_back(value);
  }
  return left;
}

// Returns whether every string of the language is a proper prefix of another one. A string that is
// about to repeat can then always be continued to a different one.
bool can_always_continue(const StringLanguage& language) {
  return std::ranges::all_of(language.states(), [](const StringLanguage::State& state) {
    return !state.accepting || !state.edges.empty();
  });
}

using Used = uint64_t;  // a set of constants, with a bit for each

// The sets of constants that an array may have used, and the constants that may follow each.
class ConstantSets {
 public:
  // `by_index` holds the possible constants of each item. Its last entry also counts for all later
  // items.
  ConstantSets(const std::vector<UniqueLiterals>& by_index, std::optional<int64_t> maximum) {
    for (const UniqueLiterals& some : by_index) all_.insert(all_.end(), some.begin(), some.end());
    all_ = distinct(all_);
    most_ = maximum.value_or(std::ssize(all_));
    std::map<std::string, size_t> number_of;
    for (size_t i = 0; i < all_.size(); ++i) number_of[canonical_text(*all_[i])] = i;
    for (const UniqueLiterals& some : by_index) {
      std::vector<size_t>& numbers = by_index_.emplace_back();
      for (const Json* value : some) numbers.push_back(number_of[canonical_text(*value)]);
    }
  }

  const UniqueLiterals& constants() const { return all_; }

  std::vector<size_t> followers(Used used) const {
    std::vector<size_t> left;
    const auto count = static_cast<size_t>(std::popcount(used));
    if (static_cast<int64_t>(count) >= most_) return left;
    for (const size_t number : by_index_[std::min(count, by_index_.size() - 1)]) {
      if ((used >> number & 1) == 0) left.push_back(number);
    }
    return left;
  }

  // Returns all sets that arrays can reach, smaller sets first. Returns no set if there are more
  // than `limit`.
  std::vector<Used> reached(size_t limit) const {
    constexpr size_t kMostConstants = 64;
    if (all_.size() > kMostConstants) return {};
    std::vector<Used> sets = {0};
    std::set<Used> seen = {0};
    for (size_t i = 0; i < sets.size(); ++i) {
      for (const size_t number : followers(sets[i])) {
        const Used next = sets[i] | Used{1} << number;
        if (seen.insert(next).second) sets.push_back(next);
      }
      if (sets.size() > limit) return {};
    }
    return sets;
  }

 private:
  UniqueLiterals all_;
  std::vector<std::vector<size_t>> by_index_;  // indices into all_
  int64_t most_ = 0;
};

}  // namespace

Result<bool> UniqueArrayLowering::run() {
  if (has_contains()) return false;
  std::vector<Literals> by_index;  // of each item of the prefix, then of the items after it
  for (int64_t i = 0; i <= prefix_items(); ++i) {
    NMM_ASSIGN(const Shapes shapes, shapes_at(i));
    const auto constants = constants_of(shapes);
    const int64_t count = constants ? std::ssize(*constants) : 0;
    if (!lowering_.budget().allocate(kConstantBytes * (1 + count)))
      return lowering_.budget().error();
    if (constants) {
      by_index.push_back(*constants);
      continue;
    }
    NMM_ASSIGN(const auto strings, strings_of(shapes));
    if (!strings || prefix_items() > 0) return false;
    add_strings(*strings);
    return true;
  }
  if (add_subsets(by_index)) return true;
  if (by_index.size() > 1) return false;
  check_enough(std::ssize(by_index.front()));
  add_in_order(by_index.front());
  return true;
}

int64_t UniqueArrayLowering::prefix_items() const {
  size_t prefix = 0;
  for (const ItemSchemas& items : limits_.items) prefix = std::max(prefix, items.prefix.size());
  return static_cast<int64_t>(prefix);
}

Result<Shapes> UniqueArrayLowering::shapes_at(int64_t index) {
  Conjunction schemas;
  for (const ItemSchemas& items : limits_.items) {
    const Json* schema = items.at(static_cast<size_t>(index));
    if (schema != nullptr) schemas.push_back(schema);
  }
  return lowering_.normalizer_.shapes_of(schemas);
}

// Returns the constants that an item may be, or nothing if it may be another value, too.
std::optional<UniqueLiterals> UniqueArrayLowering::constants_of(const Shapes& shapes) {
  Literals values;
  for (const Shape& shape : shapes) {
    switch (shape.kind) {
      case Shape::Kind::kNull:
        values.push_back(&kNull);
        break;
      case Shape::Kind::kBoolean:
        values.insert(values.end(), {&kNoValue, &kAnyValue});  // as constants: false and true
        break;
      case Shape::Kind::kLiterals:
        values.insert(values.end(), shape.literals.begin(), shape.literals.end());
        break;
      default:
        return std::nullopt;
    }
  }
  return distinct(values);
}

// Returns the strings that items may be. Returns nothing if items may be other values, too, or if
// some string cannot be continued.
Result<std::optional<StringLanguage>> UniqueArrayLowering::strings_of(const Shapes& shapes) {
  std::optional<StringLanguage> all;
  std::set<std::string> constants;
  for (const Shape& shape : shapes) {
    if (shape.kind == Shape::Kind::kLiterals) {
      for (const Json* value : shape.literals) {
        if (!value->is_string()) return std::optional<StringLanguage>();
        constants.insert(value->get<std::string>());
      }
      continue;
    }
    if (shape.kind != Shape::Kind::kString) return std::optional<StringLanguage>();
    auto some = string_language(shape.string, lowering_.budget());
    if (!some.ok()) return lowering_.error_at(point_, some.error().message);
    if (all) {
      NMM_ASSIGN(some, all->unite(*some, lowering_.budget()));
    }
    all = std::move(some).value();
  }
  if (!constants.empty()) {
    NMM_ASSIGN(const StringLanguage others,
               StringLanguage::of_strings(constants, lowering_.budget()));
    NMM_ASSIGN(all, all->unite(others, lowering_.budget()));
  }
  if (!can_always_continue(*all)) all.reset();
  return all;
}

void UniqueArrayLowering::check_enough(int64_t most) {
  if (most >= limits_.minimum) return;
  lowering_.note_contradiction(
      point_.schemas,
      fmt::format("minItems {} is more than its items that differ, {}", limits_.minimum, most));
}

RuleId UniqueArrayLowering::constant(const Json& value) {
  const RuleId rule = grammar_.add_rule();
  const auto [start, end] = grammar_.rule(rule);
  LiteralSyntax(lowering_.syntax_, grammar_).add(start, {&value}, end);
  return rule;
}

void UniqueArrayLowering::close(PositionId after) {
  const PositionId bracket = grammar_.add_position();
  lowering_.syntax_.add_white_space(after, bracket);
  grammar_.add_text(bracket, "]", point_.to);
}

// Adds a position for every set of constants that may have been used. Returns false, having built
// nothing, if there are too many sets.
bool UniqueArrayLowering::add_subsets(const std::vector<Literals>& by_index) {
  const ConstantSets sets(by_index, limits_.maximum);
  const std::vector<Used> reached = sets.reached(kMostSubsets);
  if (reached.empty()) return false;
  check_enough(std::popcount(reached.back()));
  std::vector<RuleId> rules;
  for (const Json* value : sets.constants()) rules.push_back(constant(*value));
  std::map<Used, PositionId> after;
  for (const Used used : reached) after[used] = grammar_.add_position();
  grammar_.add_text(point_.from, "[", after[0]);
  for (const Used used : reached) {
    const PositionId item = grammar_.add_position();
    if (used == 0) lowering_.syntax_.add_white_space(after[0], item);
    if (used != 0) lowering_.syntax_.add_comma(after[used], item);
    for (const size_t number : sets.followers(used))
      grammar_.add_call(item, rules[number], after[used | Used{1} << number]);
    if (std::popcount(used) < limits_.minimum) continue;
    if (used == 0) grammar_.add_text(after[0], "]", point_.to);
    if (used != 0) close(after[used]);
  }
  return true;
}

template <typename AddItems>
void UniqueArrayLowering::add_rows(size_t states, int64_t most, const AddItems& add_items) {
  const int64_t last =
      std::min(limits_.maximum.value_or(limits_.minimum), std::max(limits_.minimum, most));
  const auto new_row = [&] {
    std::vector<PositionId> row(states);
    for (PositionId& position : row) position = grammar_.add_position();
    return row;
  };
  const PositionId open = grammar_.add_position();
  grammar_.add_text(point_.from, "[", open);
  if (limits_.minimum == 0) grammar_.add_text(open, "]", point_.to);
  std::vector<PositionId> before = new_row();
  lowering_.syntax_.add_white_space(open, before[0]);
  for (int64_t count = 1; count <= std::max<int64_t>(last, 1) && !grammar_.too_large(); ++count) {
    const bool repeats = !limits_.maximum && count >= last;
    const bool ends = limits_.maximum && count == last;
    const std::vector<PositionId> after = new_row();
    std::vector<PositionId> next;
    if (!ends) next = new_row();
    for (size_t state = 0; state < states; ++state) {
      add_items(state, before[state], after, before);
      if (repeats) add_items(state, next[state], after, next);
      if (!ends) lowering_.syntax_.add_comma(after[state], next[state]);
      if (count >= limits_.minimum) close(after[state]);
    }
    before = std::move(next);
  }
}

// Adds constants in their given order. In state i, none of the constants before i may come.
void UniqueArrayLowering::add_in_order(const Literals& values) {
  std::vector<RuleId> rules;
  for (const Json* value : values) rules.push_back(constant(*value));
  add_rows(values.size() + 1, std::ssize(values),
           [&](size_t state, PositionId from, const auto& after, const auto& before) {
             if (state == values.size()) return;
             grammar_.add_call(from, rules[state], after[state + 1]);
             grammar_.add_empty(from, before[state + 1]);
           });
}

// Adds strings, marked so that UniqueStrings compares them. They are written without calls of other
// rules, which could exceed the automaton's depth inside a string. The string could then not be
// continued to a different one.
void UniqueArrayLowering::add_strings(const StringLanguage& language) {
  const RuleId rule = grammar_.add_rule();
  const auto [start, end] = grammar_.rule(rule);
  const PositionId first = grammar_.add_position();
  lowering_.syntax_.add_string_without_calls(start, language, end);
  grammar_.mark_unique(first, grammar_.add_position());
  add_rows(1, SchemaLowering::kMostItems,
           [&](size_t, PositionId from, const auto& after, const auto&) {
             grammar_.add_call(from, rule, after[0]);
           });
}

}  // namespace neuronmm::grammar
