#pragma once
// Turns shapes (schema_shapes.h) into rules of a grammar. There is one rule for every set of
// schemas that hold for the same value. SequenceCompiler (schema_compiler.cc) runs one
// SchemaLowering per schema on a grammar that all schemas share.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "serve/grammar/grammar.h"
#include "serve/schema/json_syntax.h"
#include "serve/schema/schema_normalizer.h"

namespace neuronmm::grammar {

struct LoweringSettings {
  bool closed_objects = false;  // see SchemaOptions
  // The number of states for a string whose characters cannot be counted exactly.
  int64_t counted_states = 0;
  // Pairs of branches of oneOf that share values. The shared values are excluded from both.
  std::set<BranchAddresses> exclusive;
};

class SchemaLowering {
 public:
  // The longest array, if the schema's maximum is larger. Assumed: no answer needs a longer one.
  static constexpr int64_t kMostItems = 1 << 14;

  SchemaLowering(const SchemaDocument& document, const LoweringSettings& settings, Grammar& grammar,
                 JsonSyntax& syntax)
      : document_(document),
        normalizer_(document, settings.exclusive),
        settings_(settings),
        grammar_(grammar),
        syntax_(syntax) {}

  // Returns the rule of a value that all the schemas allow. run() adds its edges.
  RuleId rule_of(const Conjunction& schemas);
  // Adds the edges of all rules that were asked for, and of the rules that they call.
  Status run();
  const std::vector<BranchPair>& branch_pairs() const { return normalizer_.branch_pairs(); }
  // Returns whether a smaller `counted_states` might make the grammar smaller.
  bool counts_approximately() const { return counts_approximately_; }
  // Returns notes, with paths, on what the grammar allows beyond the schemas, except for oneOf.
  const std::set<std::string>& notes() const { return notes_; }
  // Returns a message about the first place where the schema was found to allow nothing. The
  // message is empty if there is no such place.
  const std::string& contradiction() const { return contradiction_; }

 private:
  friend class ObjectLowering;
  friend class UniqueArrayLowering;

  struct Job {
    Conjunction schemas;
    RuleId rule;
  };
  // The positions in the grammar between which the edges of a shape are added, and the schemas of
  // the shape.
  struct InsertionPoint {
    const Conjunction& schemas;
    PositionId from, to;
  };
  Status lower(const Shape& shape, const InsertionPoint& point);
  Status lower_number(const NumberLimits& limits, const InsertionPoint& point);
  Status lower_string(const StringLimits& limits, const InsertionPoint& point);
  Status lower_array(const ArrayLimits& limits, const InsertionPoint& point);
  RuleId item_rule(const ArrayLimits& limits, int64_t index, const Json* also);
  void note_contradiction(const Conjunction& schemas, std::string_view what);
  Error error_at(const InsertionPoint& point, std::string_view what) const;
  Budget& budget() const { return document_.budget(); }

  const SchemaDocument& document_;
  SchemaNormalizer normalizer_;
  const LoweringSettings& settings_;
  Grammar& grammar_;
  JsonSyntax& syntax_;
  std::map<Conjunction, RuleId> rules_;
  std::map<std::tuple<std::vector<const StringLanguage*>, int64_t, std::optional<int64_t>>, RuleId>
      strings_;
  std::vector<Job> queue_;
  std::string contradiction_;
  std::set<std::string> notes_;
  bool counts_approximately_ = false;
};

}  // namespace neuronmm::grammar
