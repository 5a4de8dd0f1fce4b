#pragma once
// Adds the edges of an array whose items must differ from each other (uniqueItems). SchemaLowering
// (schema_lowering.h) tries it before it adds an array without uniqueItems.
//
// For constants, the automaton itself remembers which were used. Free strings are marked, and
// UniqueStrings (unique_strings.h) compares them while an answer is written. Items of other kinds
// may repeat: when the repetition shows, it may be too late to write a different item.

#include <optional>
#include <vector>

#include "serve/schema/schema_lowering.h"

namespace neuronmm::grammar {

class UniqueArrayLowering {
 public:
  // The largest number of sets of used constants, for example of eleven constants. If there are at
  // most this many, constants may come in any order, otherwise only in the schema's order.
  static constexpr size_t kMostSubsets = 2048;

  UniqueArrayLowering(SchemaLowering& lowering, const ArrayLimits& limits,
                      const SchemaLowering::InsertionPoint& point)
      : lowering_(lowering), limits_(limits), point_(point), grammar_(lowering.grammar_) {}

  // Returns false, having built nothing, if the automaton cannot see in time that two items are
  // equal.
  Result<bool> run();

 private:
  using Literals = std::vector<const Json*>;

  Result<Shapes> shapes_at(int64_t index);
  bool has_contains() const { return !limits_.contains.empty(); }
  int64_t prefix_items() const;
  std::optional<Literals> constants_of(const Shapes& shapes);
  Result<std::optional<StringLanguage>> strings_of(const Shapes& shapes);

  // Notes a contradiction if an array of at most `most` different items is too short.
  void check_enough(int64_t most);
  bool add_subsets(const std::vector<Literals>& by_index);
  void add_in_order(const Literals& values);
  void add_strings(const StringLanguage& language);
  RuleId constant(const Json& value);

  // Adds the array as rows of positions, a row for each number of items that matters. There are no
  // rows for more than `most` items, unless minItems is larger. A row has two positions for each of
  // `states` states, one before an item and one after it. For every state,
  // add_items(state, from, after, next) adds edges from `from`, which is before an item. An edge
  // may read the item and lead to after[another state], which is after it. It may also read
  // nothing and lead to next[another state], which is before the same item.
  template <typename AddItems>
  void add_rows(size_t states, int64_t most, const AddItems& add_items);
  void close(PositionId after);

  SchemaLowering& lowering_;
  const ArrayLimits& limits_;
  const SchemaLowering::InsertionPoint& point_;
  Grammar& grammar_;
};

}  // namespace neuronmm::grammar
