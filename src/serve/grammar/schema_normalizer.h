#pragma once
// Schemas become shapes: references are followed, and what allOf, anyOf, oneOf, enum and const say
// is put together.

#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "serve/grammar/schema_shapes.h"

namespace neuronmm::grammar {

// Schemas that all hold for one value, each once.
using Conjunction = std::vector<const Json*>;

// Two branches of a oneOf. Where no value can be in both, oneOf is anyOf. The same branch twice: it
// shares constants with another, or there are too many to compare.
struct BranchPair {
  const Json* schema;  // that has the oneOf
  const Json *first, *second;
};

// Two branches, each by its place in the document.
using BranchNames = std::pair<const Json*, const Json*>;

class SchemaNormalizer {
 public:
  static constexpr int64_t kMaxShapes = 1000;  // that one value may have
  static constexpr int kMaxDepth = 200;        // of schemas that hold for the same value
  static constexpr size_t kMaxBranches = 50;   // of a oneOf that are compared
  // Of a oneOf without the values that its branches share. Assumed: each is a way to write it.
  static constexpr int64_t kMaxExclusive = 100;

  // `exclusive`: branches of oneOf that share values, which are then in neither. Where they cannot
  // be excluded they stay, as if they were not named.
  SchemaNormalizer(const SchemaDocument& document, const std::set<BranchNames>& exclusive)
      : document_(document), exclusive_(exclusive) {}

  Result<Shapes> shapes_of(const Conjunction& schemas);
  // A schema that allows exactly what the given one does not. What cannot be negated is an error
  // once its shapes are asked for.
  const Json* negated(const Json& schema);
  // Of all oneOf that were met.
  const std::vector<BranchPair>& branch_pairs() const { return branch_pairs_; }

 private:
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
  Result<Shapes> in_one_alone(const std::vector<const Json*>& branches);
  Result<Shapes> all_of(const Shapes& a, const Shapes& b);
  Result<Language> name_language(const Json& schema);

  Result<bool> admits(const Json& schema, const Json& value);
  Result<bool> admits(const Shape& shape, const Json& value);
  Result<bool> admits_items(const ArrayLimits& limits, const Json& array);
  Result<bool> admits_properties(const ObjectLimits& limits, const Json& object);
  Result<std::vector<const Json*>> literals_in(const Shapes& shapes,
                                               const std::vector<const Json*>& values);

  const SchemaDocument& document_;
  const std::set<BranchNames>& exclusive_;
  std::unordered_map<const Json*, Shapes> known_;
  std::set<const Json*> in_progress_;
  std::vector<BranchPair> branch_pairs_;
  bool literals_may_be_wider_ = false;  // some were chosen by a oneOf that is taken as anyOf
  std::deque<Json> negations_;          // places alone: each stands for what it negates
  std::unordered_map<const Json*, const Json*> negation_of_, negated_by_;
};

}  // namespace neuronmm::grammar
