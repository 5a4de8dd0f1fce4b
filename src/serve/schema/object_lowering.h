#pragma once
// Adds the edges of an object to the grammar of a schema. SchemaLowering (schema_lowering.h) uses
// it for every object shape. The named properties come in the schema's order, and those that are
// not required may be left out. After them come other properties, if they are allowed.

#include <string>
#include <vector>

#include "serve/schema/schema_lowering.h"

namespace neuronmm::grammar {

class ObjectLowering {
 public:
  ObjectLowering(SchemaLowering& lowering, const ObjectLimits& limits,
                 const SchemaLowering::InsertionPoint& point)
      : lowering_(lowering), limits_(limits), point_(point) {}
  // Returns an error if the limits are not supported. Limits that no object satisfies are noted as
  // a contradiction.
  Status run();

 private:
  // The most classes of names that overlapping patterns may make. Assumed.
  static constexpr size_t kMaxClasses = 64;

  // A property that the schema names.
  struct Named {
    std::string name;
    RuleId rule;
    bool required;
  };
  // A set of unnamed properties that the same patterns match.
  struct NameClass {
    Language language;  // the names, or nullptr for any name
    // The schemas of the patterns that match, for each PropertySchemas of the limits.
    std::vector<std::vector<const Json*>> schemas;
  };
  // The unnamed properties of a class, with the rule of their values.
  struct Other {
    Language language;
    RuleId rule;
  };

  void collect_named();
  Status collect_others();
  bool is_closed() const;
  Result<NameClass> unnamed() const;
  Result<std::vector<NameClass>> split_by_patterns(NameClass all) const;
  Conjunction schemas_of(const NameClass& names) const;
  int64_t required_properties() const;
  std::string count_contradiction() const;
  Status decide_counts();
  void connect();
  void connect_after(size_t next, int64_t count);
  void connect_before(size_t next, int64_t count);
  // Two positions for each pair of `next` and `count`. `count` properties were written, and named
  // property `next` is the first one that can still come. after() is the position after a value or
  // the opening brace. before() is the position where a property begins.
  PositionId after(size_t next, int64_t count);
  PositionId before(size_t next, int64_t count);

  SchemaLowering& lowering_;
  const ObjectLimits& limits_;
  const SchemaLowering::InsertionPoint& point_;
  std::vector<Named> named_;
  std::vector<Other> others_;
  int64_t minimum_ = 0;
  std::optional<int64_t> maximum_;
  int64_t largest_count_ = 1;          // larger counts are treated like this one
  size_t all_optional_from_ = 0;       // from this named property on, none is required
  std::vector<PositionId> positions_;  // the results of after() and before(), or -1
};

}  // namespace neuronmm::grammar
