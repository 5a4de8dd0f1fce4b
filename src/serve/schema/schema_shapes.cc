#include "serve/schema/schema_shapes.h"

#include <algorithm>

#include "serve/grammar/counted_strings.h"
#include "serve/schema/decimal.h"

namespace neuronmm::grammar {
namespace {

// The smallest number of states that is tried for an automaton of only some strings. Assumed: fewer
// states allow only very short strings.
constexpr int64_t kFewestStates = 256;

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::optional<int64_t> smaller(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// Returns the bound that allows less. `is_minimum` says that the bounds are minimums.
std::optional<NumberBound> tighter(const std::optional<NumberBound>& a,
                                   const std::optional<NumberBound>& b, bool is_minimum) {
  if (!a || !b) return a ? a : b;
  if (a->value == b->value) return NumberBound{a->value, a->exclusive || b->exclusive};
  return (a->value < b->value) == is_minimum ? b : a;
}

Result<StringLanguage> language_of_any_length(const StringLimits& limits, Budget& budget) {
  if (limits.languages.empty()) return StringLanguage::any();
  StringLanguage language = *limits.languages.front();
  budget.allocate(language.bytes());
  for (size_t i = 1; i < limits.languages.size(); ++i) {
    NMM_ASSIGN(language, language.intersect(*limits.languages[i], budget));
  }
  return language;
}

Result<StringLanguage> exact_string_language(const StringLimits& limits, Budget& budget) {
  NMM_ASSIGN(const StringLanguage language, language_of_any_length(limits, budget));
  if (limits.minimum == 0 && !limits.maximum) return language;
  if (limits.maximum && !can_count(language, *limits.maximum, budget))
    return StringLanguage::too_many_states();
  NMM_ASSIGN(const StringLanguage lengths,
             StringLanguage::of_length(limits.minimum, limits.maximum, budget));
  return language.intersect(lengths, budget);
}

Result<StringLanguage> string_language_or_part(const StringLimits& limits, int64_t states,
                                               Budget& budget) {
  auto all = string_language(limits, budget);
  if (!limits.maximum || (all.ok() && std::ssize(all->states()) <= 2 * states)) return all;
  NMM_ASSIGN(const StringLanguage language, language_of_any_length(limits, budget));
  NMM_ASSIGN(const StringLanguage lengths, StringLanguage::of_length(limits.minimum, {}, budget));
  for (; states >= kFewestStates; states /= 2) {
    auto shorter = subset_up_to(language, *limits.maximum, states, budget);
    if (!shorter.ok()) return shorter;
    auto some = limits.minimum == 0 ? std::move(shorter) : shorter->intersect(lengths, budget);
    if (!budget.ok()) return budget.error();
    if (some.ok() && !some->empty()) return some;
  }
  return all;
}

}  // namespace

void PropertySchemas::add(const std::string& name, const Json* schema) {
  names.push_back(name);
  named[name] = schema;
}

std::vector<const Json*> PropertySchemas::of(const std::string& name) const {
  std::vector<const Json*> schemas;
  if (const auto found = named.find(name); found != named.end()) schemas.push_back(found->second);
  for (const auto& [language, schema] : patterns) {
    if (language->accepts(name)) schemas.push_back(schema);
  }
  if (schemas.empty() && additional != nullptr) schemas.push_back(additional);
  return schemas;
}

Shape intersection(const Shape& a, const Shape& b) {
  Shape shape = a;
  shape.may_exceed_schema |= b.may_exceed_schema;
  shape.number.integer |= b.number.integer;
  shape.number.fractional |= b.number.fractional;
  shape.number.minimum = tighter(a.number.minimum, b.number.minimum, true);
  shape.number.maximum = tighter(a.number.maximum, b.number.maximum, false);
  for (const Decimal& multiple : b.number.multiples) {
    auto& multiples = shape.number.multiples;
    if (std::find(multiples.begin(), multiples.end(), multiple) == multiples.end())
      multiples.push_back(multiple);
  }
  shape.string.minimum = std::max(a.string.minimum, b.string.minimum);
  shape.string.maximum = smaller(a.string.maximum, b.string.maximum);
  append(shape.string.languages, b.string.languages);
  shape.string.partial |= b.string.partial;
  append(shape.array.items, b.array.items);
  append(shape.array.contains, b.array.contains);
  shape.array.minimum = std::max(a.array.minimum, b.array.minimum);
  shape.array.maximum = smaller(a.array.maximum, b.array.maximum);
  shape.array.unique |= b.array.unique;
  append(shape.object.properties, b.object.properties);
  append(shape.object.required, b.object.required);
  append(shape.object.names, b.object.names);
  shape.object.minimum = std::max(a.object.minimum, b.object.minimum);
  shape.object.maximum = smaller(a.object.maximum, b.object.maximum);
  return shape;
}

int64_t bytes_of(const Shape& shape) {
  const auto bytes = [](const auto& vector) {
    return std::ssize(vector) * static_cast<int64_t>(sizeof(vector[0]));
  };
  int64_t sum = sizeof(Shape) + bytes(shape.number.multiples) + bytes(shape.string.languages) +
                bytes(shape.array.items) + bytes(shape.array.contains) +
                bytes(shape.object.properties) + bytes(shape.object.required) +
                bytes(shape.object.names) + bytes(shape.literals);
  for (const ItemSchemas& items : shape.array.items) sum += bytes(items.prefix);
  for (const std::string& name : shape.object.required) sum += std::ssize(name);
  return sum;
}

Status charge(const Shape& shape, Budget& budget) {
  if (!budget.allocate(bytes_of(shape))) return budget.error();
  return {};
}

Status charge(const Shapes& shapes, Budget& budget) {
  for (const Shape& shape : shapes) NMM_TRY(charge(shape, budget));
  return {};
}

Result<StringLanguage> string_language(const StringLimits& limits, Budget& budget) {
  Budget::Scratch scratch(budget);
  auto language = exact_string_language(limits, budget);
  if (language.ok()) scratch.keep(language->bytes());
  return language;
}

Result<StringLanguage> string_language_or_subset(const StringLimits& limits, int64_t states,
                                                 Budget& budget) {
  Budget::Scratch scratch(budget);
  auto language = string_language_or_part(limits, states, budget);
  if (language.ok()) scratch.keep(language->bytes());
  return language;
}

std::string canonical_text(const Json& value) {
  if (value.is_number()) return Decimal::of(value).text();
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> parts;
  for (const auto& item : value.items()) {
    const std::string key = value.is_object() ? Json(item.key()).dump() + ":" : "";
    parts.push_back(key + canonical_text(item.value()));
  }
  if (value.is_object()) std::sort(parts.begin(), parts.end());
  const bool is_object = value.is_object();
  return fmt::format("{}{}{}", is_object ? '{' : '[', fmt::join(parts, ","), is_object ? '}' : ']');
}

}  // namespace neuronmm::grammar
