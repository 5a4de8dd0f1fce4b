#pragma once
// Objects: the named properties in their order, those that are not required skipped at will, and
// behind them any others that are allowed.

#include <string>
#include <vector>

#include "serve/grammar/schema_lowering.h"

namespace neuronmm::grammar {

class ObjectLowering {
 public:
  ObjectLowering(SchemaLowering& lowering, const ObjectLimits& limits,
                 const SchemaLowering::Place& place)
      : lowering_(lowering), limits_(limits), place_(place) {}
  Status run();

 private:
  static constexpr size_t kMaxClasses = 64;

  struct Named {
    std::string name;
    RuleId rule;
    bool required;
  };
  // Names that the same schemas speak of.
  struct NameClass {
    Language language;                              // nullptr: any
    std::vector<std::vector<const Json*>> schemas;  // by PropertySchemas: those of its patterns
  };
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
  std::string count_contradiction() const;
  Status settle_counts();
  void connect();
  void connect_after(size_t next, int64_t count);   // behind a value, or the opening brace
  void connect_before(size_t next, int64_t count);  // where a property begins
  // The position of that kind before property `next` of those named, with `count` of all behind.
  PositionId after(size_t next, int64_t count);
  PositionId before(size_t next, int64_t count);

  SchemaLowering& lowering_;
  const ObjectLimits& limits_;
  const SchemaLowering::Place& place_;
  std::vector<Named> named_;
  std::vector<Other> others_;
  int64_t minimum_ = 0;
  std::optional<int64_t> maximum_;
  int64_t largest_count_ = 1;  // it is not counted further
  size_t all_optional_from_ = 0;
  std::vector<PositionId> positions_;
};

}  // namespace neuronmm::grammar
