#include "serve/schema/unevaluated.h"

#include <algorithm>
#include <set>

namespace neuronmm::grammar {
namespace {

constexpr size_t kMostOverlapping = 6;  // bounds the number of combinations, which is 2^6

// The properties or items that a shape's schemas have evaluated.
struct Evaluated {
  bool all = false;
  size_t prefix = 0;  // the number of items of an array
  std::set<std::string> names;
  std::set<Language> patterns;

  bool operator==(const Evaluated&) const = default;
};

Evaluated evaluated_by(const Shape& shape) {
  Evaluated found;
  for (const ItemSchemas& items : shape.array.items) {
    if (!items.evaluates) continue;
    found.all |= items.rest != nullptr;
    found.prefix = std::max(found.prefix, items.prefix.size());
  }
  for (const auto& properties : shape.object.properties) {
    if (!properties->evaluates) continue;
    found.all |= properties->additional != nullptr;
    found.names.insert(properties->names.begin(), properties->names.end());
    for (const auto& [language, schema] : properties->patterns) found.patterns.insert(language);
  }
  if (found.all) return Evaluated{.all = true, .prefix = 0, .names = {}, .patterns = {}};
  return found;
}

// Charges a set of names, and another copy of them in a PropertySchemas.
Status charge_names(const Evaluated& evaluated, Budget& budget) {
  constexpr int64_t kBytesPerName = 250;  // in a set and in a table. Assumed
  int64_t bytes = static_cast<int64_t>(evaluated.prefix * sizeof(void*)) +
                  std::ssize(evaluated.patterns) * kBytesPerName;
  for (const std::string& name : evaluated.names) bytes += kBytesPerName + 3 * std::ssize(name);
  if (!budget.allocate(bytes)) return budget.error();
  return {};
}

// Returns the shapes, and the combinations of them that evaluate more than each of their members.
Result<Shapes> combinations(const Shapes& shapes, Budget& budget) {
  NMM_TRY(charge(shapes, budget));
  Shapes result = shapes;
  std::vector<Evaluated> evaluated;
  for (const Shape& shape : shapes) {
    evaluated.push_back(evaluated_by(shape));
    NMM_TRY(charge_names(evaluated.back(), budget));
  }
  const bool all_equal = std::all_of(evaluated.begin(), evaluated.end(), [&](const Evaluated& one) {
    return one == evaluated.front();
  });
  if (all_equal) return result;
  if (shapes.size() > kMostOverlapping)
    return fail("more than {} alternatives that evaluate different properties or items",
                kMostOverlapping);
  for (size_t chosen = 1; chosen < size_t{1} << shapes.size(); ++chosen) {
    std::optional<Shape> combined;
    std::vector<const Evaluated*> alone;
    for (size_t i = 0; i < shapes.size(); ++i) {
      if ((chosen >> i & 1) == 0) continue;
      combined = combined ? intersection(*combined, shapes[i]) : shapes[i];
      NMM_TRY(charge(*combined, budget));
      alone.push_back(&evaluated[i]);
    }
    const Evaluated all = evaluated_by(*combined);
    NMM_TRY(charge_names(all, budget));
    const bool adds =
        std::none_of(alone.begin(), alone.end(), [&](const Evaluated* one) { return *one == all; });
    if (adds) result.push_back(std::move(*combined));
  }
  return result;
}

Status limit_rest(Shape& shape, const Json& schema, Budget& budget) {
  const Evaluated evaluated = evaluated_by(shape);
  NMM_TRY(charge_names(evaluated, budget));
  if (evaluated.all) return {};
  if (shape.kind == Shape::Kind::kArray) {
    ItemSchemas items;
    items.prefix.assign(evaluated.prefix, nullptr);
    items.rest = &schema;
    shape.array.items.push_back(std::move(items));
    return {};
  }
  PropertySchemas properties;
  for (const std::string& name : evaluated.names) properties.add(name, &kAnyValue);
  for (const Language& language : evaluated.patterns)
    properties.patterns.emplace_back(language, &kAnyValue);
  properties.additional = &schema;
  properties.mentions_others = true;
  shape.object.properties.push_back(std::make_shared<const PropertySchemas>(std::move(properties)));
  return {};
}

}  // namespace

Result<Shapes> with_unevaluated(Shapes shapes, Shape::Kind kind, const Json& schema,
                                Budget& budget) {
  const bool is_array = kind == Shape::Kind::kArray;
  Shapes concerned, result;
  for (Shape& shape : shapes) {
    const bool has_constants = std::any_of(
        shape.literals.begin(), shape.literals.end(),
        [&](const Json* value) { return is_array ? value->is_array() : value->is_object(); });
    if (has_constants) return fail("this is not supported beside constants");
    if (shape.kind == kind && !shape.array.contains.empty())
      return fail("this is not supported beside contains");
    (shape.kind == kind ? concerned : result).push_back(std::move(shape));
  }
  if (concerned.empty()) return result;
  NMM_ASSIGN(Shapes overlapping, combinations(concerned, budget));
  for (Shape& shape : overlapping) {
    NMM_TRY(limit_rest(shape, schema, budget));
    result.push_back(std::move(shape));
  }
  return result;
}

}  // namespace neuronmm::grammar
