#include "serve/schema/schema_complement.h"

#include <algorithm>
#include <set>
#include <utility>

namespace neuronmm::grammar {
namespace {

using ComplementKind = Shape::Kind;

// The memory of a PropertySchemas with one property, without the name. Assumed.
constexpr int64_t kOnePropertyBytes = 400;

// Collects shapes, each of which breaks one limit of the given shape.
class ShapeComplement {
 public:
  ShapeComplement(const Shapes& all, const Negate& negate, Budget& budget)
      : all_(all), negate_(negate), budget_(budget) {}

  Result<Shapes> run(const Shape& shape) {
    if (shape.may_exceed_schema)
      return fail("a oneOf whose branches may share values is not negated");
    if (shape.kind == ComplementKind::kLiterals) {
      NMM_TRY(literals(shape.literals));
      return take_result();
    }
    for (const Shape& other : all_) {
      if (other.kind != shape.kind) result_.push_back(other);
    }
    if (shape.kind == ComplementKind::kNumber) NMM_TRY(number(shape.number));
    if (shape.kind == ComplementKind::kString) NMM_TRY(string(shape.string));
    if (shape.kind == ComplementKind::kArray) NMM_TRY(array(shape.array));
    if (shape.kind == ComplementKind::kObject) NMM_TRY(object(shape.object));
    return take_result();
  }

 private:
  Result<Shapes> take_result() {
    if (!budget_.ok()) return budget_.error();
    return std::move(result_);
  }

  Shape& add(ComplementKind kind) {
    budget_.allocate(2 * sizeof(Shape));
    Shape shape{};
    shape.kind = kind;
    return result_.emplace_back(std::move(shape));
  }

  // Adds shapes with a count below the minimum and above the maximum. `limits_of` returns the
  // limits of a shape that have the count.
  template <typename LimitsOf>
  void counts(ComplementKind kind, int64_t minimum, std::optional<int64_t> maximum,
              LimitsOf limits_of) {
    if (minimum > 0) limits_of(add(kind)).maximum = minimum - 1;
    if (maximum) limits_of(add(kind)).minimum = *maximum + 1;
  }

  Status number(const NumberLimits& limits) {
    if (!limits.multiples.empty()) return fail("multipleOf is not negated");
    if (limits.integer) add(ComplementKind::kNumber).number.fractional = true;
    if (limits.fractional) add(ComplementKind::kNumber).number.integer = true;
    const auto beyond = [](const NumberBound& bound) {
      return NumberBound{bound.value, !bound.exclusive};
    };
    if (limits.minimum) add(ComplementKind::kNumber).number.maximum = beyond(*limits.minimum);
    if (limits.maximum) add(ComplementKind::kNumber).number.minimum = beyond(*limits.maximum);
    return {};
  }

  Status string(const StringLimits& limits) {
    if (limits.partial) return fail("a format of which only some strings are known is not negated");
    counts(ComplementKind::kString, limits.minimum, limits.maximum,
           [](Shape& shape) -> StringLimits& { return shape.string; });
    for (const Language& language : limits.languages) {
      NMM_ASSIGN(StringLanguage other, language->complement(budget_));
      add(ComplementKind::kString)
          .string.languages.push_back(std::make_shared<const StringLanguage>(std::move(other)));
    }
    return {};
  }

  Status array(const ArrayLimits& limits) {
    if (limits.unique) return fail("uniqueItems is not negated");
    counts(ComplementKind::kArray, limits.minimum, limits.maximum,
           [](Shape& shape) -> ArrayLimits& { return shape.array; });
    for (const ContainsLimits& contains : limits.contains) {
      if (contains.minimum > 0)
        add(ComplementKind::kArray).array.contains = {{contains.schema, 0, contains.minimum - 1}};
      if (contains.maximum)
        add(ComplementKind::kArray).array.contains = {
            {contains.schema, *contains.maximum + 1, std::nullopt}};
    }
    for (const ItemSchemas& items : limits.items) NMM_TRY(some_item(items));
    return {};
  }

  // Adds shapes of arrays with an item that its schema does not allow, in the prefix or after it.
  Status some_item(const ItemSchemas& items) {
    for (size_t i = 0; i < items.prefix.size(); ++i) {
      if (items.prefix[i] == nullptr || allows_all(*items.prefix[i])) continue;
      if (!budget_.allocate(static_cast<int64_t>((i + 1) * sizeof(void*)))) return budget_.error();
      ArrayLimits& limits = add(ComplementKind::kArray).array;
      limits.minimum = static_cast<int64_t>(i) + 1;
      ItemSchemas broken;
      broken.evaluates = false;
      broken.prefix.assign(i, nullptr);
      broken.prefix.push_back(negate_(*items.prefix[i]));
      limits.items.push_back(std::move(broken));
    }
    if (items.rest == nullptr || allows_all(*items.rest)) return {};
    if (*items.rest == kNoValue) {
      add(ComplementKind::kArray).array.minimum = std::ssize(items.prefix) + 1;
    } else if (items.prefix.empty()) {
      add(ComplementKind::kArray).array.contains = {{negate_(*items.rest), 1, std::nullopt}};
    } else {
      return fail("items behind prefixItems are not negated");
    }
    return {};
  }

  Status object(const ObjectLimits& limits) {
    counts(ComplementKind::kObject, limits.minimum, limits.maximum,
           [](Shape& shape) -> ObjectLimits& { return shape.object; });
    if (!limits.names.empty()) return fail("propertyNames is not negated");
    for (const std::string& name : limits.required) with_property(name, kNoValue);
    for (const auto& properties : limits.properties) {
      const bool limits_others =
          properties->additional != nullptr && !allows_all(*properties->additional);
      const bool has_patterns =
          std::any_of(properties->patterns.begin(), properties->patterns.end(),
                      [](const auto& pattern) { return !allows_all(*pattern.second); });
      if (limits_others || has_patterns)
        return fail(
            "properties that are not named (additionalProperties, patternProperties, "
            "unevaluatedProperties) are not negated");
      for (const std::string& name : properties->names) {
        const Json& schema = *properties->named.at(name);
        if (allows_all(schema)) continue;
        with_property(name, *negate_(schema)).required = {name};
      }
    }
    return {};
  }

  ObjectLimits& with_property(const std::string& name, const Json& schema) {
    budget_.allocate(kOnePropertyBytes + std::ssize(name));
    PropertySchemas properties;
    properties.evaluates = false;
    properties.add(name, &schema);
    ObjectLimits& limits = add(ComplementKind::kObject).object;
    limits.properties.push_back(std::make_shared<const PropertySchemas>(std::move(properties)));
    return limits;
  }

  // Adds shapes of all values except the given constants.
  Status literals(const std::vector<const Json*>& values) {
    std::vector<Decimal> numbers;
    std::set<std::string> strings;
    bool null = false, no_items = false, no_properties = false;
    std::set<bool> booleans;
    for (const Json* value : values) {
      if (value->is_structured() && !value->empty())
        return fail("a constant that is an array or an object is not negated");
      null |= value->is_null();
      no_items |= value->is_array();
      no_properties |= value->is_object();
      if (value->is_boolean()) booleans.insert(value->get<bool>());
      if (value->is_number()) numbers.push_back(Decimal::of(*value));
      if (value->is_string()) strings.insert(value->get<std::string>());
    }
    if (!null) add(ComplementKind::kNull);
    add(ComplementKind::kArray).array.minimum = no_items ? 1 : 0;
    add(ComplementKind::kObject).object.minimum = no_properties ? 1 : 0;
    for (const Json* value : {&kAnyValue, &kNoValue}) {  // as constants: true and false
      if (!booleans.contains(value->get<bool>()))
        add(ComplementKind::kLiterals).literals.push_back(value);
    }
    between(std::move(numbers));
    return other_strings(strings);
  }

  void between(std::vector<Decimal> numbers) {
    std::sort(numbers.begin(), numbers.end());
    std::optional<NumberBound> last;
    for (const Decimal& number : numbers) {
      NumberLimits& limits = add(ComplementKind::kNumber).number;
      limits.minimum = last;
      limits.maximum = last = NumberBound{number, true};
    }
    add(ComplementKind::kNumber).number.minimum = last;
  }

  Status other_strings(const std::set<std::string>& strings) {
    StringLimits& limits = add(ComplementKind::kString).string;
    if (strings.empty()) return {};
    NMM_ASSIGN(const StringLanguage some, StringLanguage::of_strings(strings, budget_));
    NMM_ASSIGN(StringLanguage others, some.complement(budget_));
    limits.languages.push_back(std::make_shared<const StringLanguage>(std::move(others)));
    return {};
  }

  const Shapes& all_;
  const Negate& negate_;
  Budget& budget_;
  Shapes result_;
};

}  // namespace

Result<Shapes> complement_of(const Shape& shape, const Shapes& all, const Negate& negate,
                             Budget& budget) {
  return ShapeComplement(all, negate, budget).run(shape);
}

}  // namespace neuronmm::grammar
