#pragma once
// Arrays whose items differ from each other (uniqueItems). Of constants the automaton itself knows
// which were used. Free strings it cannot remember: they are marked, and UniqueStrings looks at
// them while an answer is written. Other items may repeat: nothing could be done once all that is
// left is to repeat one.

#include <optional>
#include <vector>

#include "serve/grammar/schema_lowering.h"

namespace neuronmm::grammar {

class UniqueArrayLowering {
 public:
  // Constants that may come in any order; more, or in longer arrays, come in the schema's order. An
  // array of eleven constants has 2^11 beginnings.
  static constexpr size_t kMostSubsets = 2048;

  UniqueArrayLowering(SchemaLowering& lowering, const ArrayLimits& limits,
                      const SchemaLowering::Place& place)
      : lowering_(lowering), limits_(limits), place_(place), grammar_(lowering.grammar_) {}

  // False, and nothing is built: of its items it is not known in time which repeat.
  Result<bool> run();

 private:
  using Literals = std::vector<const Json*>;

  Result<Shapes> shapes_at(int64_t index);
  bool has_contains() const { return !limits_.contains.empty(); }
  int64_t prefix_items() const;
  std::optional<Literals> constants_of(const Shapes& shapes);
  Result<std::optional<StringLanguage>> strings_of(const Shapes& shapes);

  // Notes a contradiction where arrays of so many items are too short.
  void check_enough(int64_t most);
  bool add_subsets(const std::vector<Literals>& by_index);
  void add_in_order(const Literals& values);
  void add_strings(const StringLanguage& language);
  RuleId constant(const Json& value);

  // Rows of states, one for every count of items that matters. add_items(state, from, behind, next)
  // adds the ways from `from`, before an item, to behind[some state], or to next[some state], which
  // are before an item too.
  template <typename AddItems>
  void add_rows(size_t states, const AddItems& add_items);
  void close(PositionId behind);

  SchemaLowering& lowering_;
  const ArrayLimits& limits_;
  const SchemaLowering::Place& place_;
  Grammar& grammar_;
};

}  // namespace neuronmm::grammar
