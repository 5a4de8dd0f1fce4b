#pragma once
// What a schema says, in normal form: one of several shapes, each for one type of value with all
// limits that hold for it together.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serve/grammar/number_language.h"
#include "serve/grammar/schema_document.h"
#include "serve/grammar/string_language.h"

namespace neuronmm::grammar {

using Language = std::shared_ptr<const StringLanguage>;

struct StringLimits {
  int64_t minimum = 0;  // in characters
  std::optional<int64_t> maximum;
  std::vector<Language> languages;  // it is in all of them
  bool partial = false;             // there are others: what is not in them is not known

  bool only_lengths() const { return languages.empty(); }
};

// What one schema says of an array's items. Several hold together where schemas do.
struct ItemSchemas {
  std::vector<const Json*> prefix;
  const Json* rest = nullptr;  // of the items behind the prefix; nullptr: anything
  bool evaluates = true;       // what it speaks of counts for unevaluatedItems
  const Json* at(size_t index) const { return index < prefix.size() ? prefix[index] : rest; }
};

// How many of an array's items are of the schema.
struct ContainsLimits {
  const Json* schema;
  int64_t minimum = 1;
  std::optional<int64_t> maximum;
};

struct ArrayLimits {
  std::vector<ItemSchemas> items;
  std::vector<ContainsLimits> contains;
  int64_t minimum = 0;
  std::optional<int64_t> maximum;
  bool unique = false;  // no two items are equal
};

// What one schema says of an object's properties.
struct PropertySchemas {
  std::vector<std::string> names;  // in the schema's order
  std::unordered_map<std::string, const Json*> named;
  std::vector<std::pair<Language, const Json*>> patterns;
  const Json* additional = nullptr;  // of all others; nullptr: anything
  bool mentions_others = false;      // it says what others may be, or which
  bool evaluates = true;             // what it speaks of counts for unevaluatedProperties
  bool closes = false;               // it names properties and does not mention others

  void add(const std::string& name, const Json* schema);
  // What the property `name` has to be, all of them.
  std::vector<const Json*> of(const std::string& name) const;
};

struct ObjectLimits {
  std::vector<std::shared_ptr<const PropertySchemas>> properties;
  std::vector<std::string> required;
  std::vector<Language> names;  // every name is in all of them
  int64_t minimum = 0;
  std::optional<int64_t> maximum;
};

struct Shape {
  enum class Kind { kNull, kBoolean, kNumber, kString, kArray, kObject, kLiterals };
  Kind kind;
  NumberLimits number;
  StringLimits string;
  ArrayLimits array;
  ObjectLimits object;
  std::vector<const Json*> literals;  // one of them
  // It may allow too much: through a oneOf that is taken as anyOf.
  bool may_be_wider = false;
};

using Shapes = std::vector<Shape>;

// A value that both allow. The shapes have the same kind, and it is not kLiterals.
Shape both(const Shape& a, const Shape& b);
// The strings within the limits.
Result<StringLanguage> string_language(const StringLimits& limits);
// The same, or where counting characters takes too many states, some of these strings, by an
// automaton of about so many.
Result<StringLanguage> string_language_or_some(const StringLimits& limits, int64_t states);
// The value as text that equal values share: 1.0 and 1, objects in any order.
std::string canonical_text(const Json& value);

}  // namespace neuronmm::grammar
