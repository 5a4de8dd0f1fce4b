#pragma once
// Turns schemas into shapes (schema_shapes.h). It follows references and combines whatever allOf,
// anyOf, oneOf, not, if, enum and const say. SchemaLowering (schema_lowering.h) asks it for the
// shapes of each rule. Errors name the keyword that is wrong or cannot be enforced.

#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "serve/schema/schema_shapes.h"

namespace neuronmm::grammar {

// Different schemas that must all hold for one value.
using Conjunction = std::vector<const Json*>;

// Two branches of a oneOf that may share values. If no branches share values, oneOf equals anyOf.
// `first` equals `second` if the branch shares constants with another one, or if there are too many
// branches to compare.
struct BranchPair {
  const Json* schema;  // the schema that has the oneOf
  const Json *first, *second;
};

// Two branches of a oneOf, identified by their addresses in the document.
using BranchAddresses = std::pair<const Json*, const Json*>;

class SchemaNormalizer {
 public:
  // The most alternative shapes of one value, how deep schemas of the same value may nest, and the
  // most branches of a oneOf that are compared. Assumed.
  static constexpr int64_t kMaxShapes = 1000;
  static constexpr int kMaxDepth = 200;
  static constexpr size_t kMaxBranches = 50;
  // The most shapes of a oneOf after the values that its branches share are taken out. Assumed:
  // each shape becomes a part of the grammar.
  static constexpr int64_t kMaxExclusive = 100;

  // `exclusive` holds pairs of branches of oneOf that share values. The shared values are taken out
  // of both branches. If they cannot be taken out, the branches stay as they are.
  SchemaNormalizer(const SchemaDocument& document, const std::set<BranchAddresses>& exclusive)
      : document_(document), exclusive_(exclusive) {}

  // Returns the shapes of the values that all the schemas allow.
  Result<Shapes> shapes_of(const Conjunction& schemas);
  // Returns a schema that allows exactly the values that the given one does not. If the schema
  // cannot be negated, asking for the shapes of the result is an error.
  const Json* negated(const Json& schema);
  // Returns the schema, or the one that it negates: a part that messages can name.
  const Json& part_of(const Json& schema) const;
  // Returns the pairs of branches that may share values, of every oneOf that was read.
  const std::vector<BranchPair>& branch_pairs() const { return branch_pairs_; }

 private:
  Budget& budget() const { return document_.budget(); }
  // Charges texts of constants. Returns an error if the budget is exceeded.
  Status charge(const std::set<std::string>& texts) const;
  Result<const Shapes*> shapes_of(const Json& schema);
  Result<Shapes> read(const Json& schema);
  Result<Shapes> read_object(const Json& schema);
  Status apply_literals(const Json& schema, Shapes& shapes);
  Status apply_dependencies(const Json& schema, Shapes& shapes);
  Status apply_dependency(const Json& schema, const std::string& name, const Json& then,
                          Shapes& shapes);
  Status apply_not(const Json& schema, Shapes& shapes);
  Status apply_condition(const Json& schema, Shapes& shapes);
  Status apply_unevaluated(const Json& schema, Shapes& shapes);
  Result<Shapes> complement(const Json& schema);
  Shape literal_shape(std::vector<const Json*> values) const;
  Result<const Json*> target_of_reference(const Json& schema) const;
  Result<std::vector<const Json*>> branches(const Json& schema, const char* keyword) const;
  Status compare_branches(const Json& schema, const std::vector<const Json*>& branches);
  Result<Shapes> any_of(const std::vector<const Json*>& branches);
  Result<Shapes> one_of(const Json& schema, const std::vector<const Json*>& branches);
  Result<Shapes> exclusive_shapes(const std::vector<const Json*>& branches);
  Result<Shapes> all_of(const Shapes& a, const Shapes& b);
  Result<Language> name_language(const Json& schema);

  Result<bool> admits(const Json& schema, const Json& value);
  Result<bool> admits(const Shape& shape, const Json& value);
  Result<bool> admits_items(const ArrayLimits& limits, const Json& array);
  Result<bool> admits_properties(const ObjectLimits& limits, const Json& object);
  Result<std::vector<const Json*>> literals_in(const Shapes& shapes,
                                               const std::vector<const Json*>& values);

  const SchemaDocument& document_;
  const std::set<BranchAddresses>& exclusive_;
  std::unordered_map<const Json*, Shapes> known_;
  std::set<const Json*> in_progress_;
  std::vector<BranchPair> branch_pairs_;
  // Whether some constants were selected by a shape that may be wider than its schema.
  bool literals_may_exceed_schema_ = false;
  // The schemas that negated() returns. Only their addresses matter.
  std::deque<Json> negations_;
  std::unordered_map<const Json*, const Json*> negation_of_, negated_by_;
};

}  // namespace neuronmm::grammar
