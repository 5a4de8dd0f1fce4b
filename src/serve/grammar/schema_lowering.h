#pragma once
// Shapes become rules of a grammar: one rule for every set of schemas that hold for the same value.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "serve/grammar/grammar.h"
#include "serve/grammar/json_syntax.h"
#include "serve/grammar/schema_normalizer.h"

namespace neuronmm::grammar {

struct LoweringSettings {
  bool closed_objects = false;  // see SchemaOptions
  // What a string's automaton may have where it cannot count all characters.
  int64_t counted_states = 0;
  // Branches of oneOf that share values: the others are excluded from each.
  std::set<BranchNames> exclusive;
};

class SchemaLowering {
 public:
  SchemaLowering(const SchemaDocument& document, const LoweringSettings& settings, Grammar& grammar,
                 JsonSyntax& syntax)
      : document_(document),
        normalizer_(document, settings.exclusive),
        settings_(settings),
        grammar_(grammar),
        syntax_(syntax) {}

  // The rule of a value that all schemas allow. It has its edges when run() has returned.
  RuleId rule_of(const Conjunction& schemas);
  // Builds what was asked for, and what that asks for.
  Status run();
  const std::vector<BranchPair>& branch_pairs() const { return normalizer_.branch_pairs(); }
  // Whether fewer counted states might have made it smaller.
  bool counts_roughly() const { return counts_roughly_; }
  // What is allowed beyond the schemas, with paths, but for oneOf.
  const std::set<std::string>& notes() const { return notes_; }
  // Where the schema was first found to allow nothing, for messages; empty: nowhere.
  const std::string& contradiction() const { return contradiction_; }

 private:
  friend class ObjectLowering;
  friend class UniqueArrayLowering;

  struct Job {
    Conjunction schemas;
    RuleId rule;
  };
  // From where to where the edges of a shape go, and whose shape it is.
  struct Place {
    const Conjunction& schemas;
    PositionId from, to;
  };
  Status lower(const Shape& shape, const Place& place);
  Status lower_number(const NumberLimits& limits, const Place& place);
  Status lower_string(const StringLimits& limits, const Place& place);
  Status lower_array(const ArrayLimits& limits, const Place& place);
  RuleId item_rule(const ArrayLimits& limits, int64_t index, const Json* also);
  void note_contradiction(const Conjunction& schemas, std::string_view what);
  Error wrong(const Place& place, std::string_view what) const;

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
  bool counts_roughly_ = false;
};

}  // namespace neuronmm::grammar
