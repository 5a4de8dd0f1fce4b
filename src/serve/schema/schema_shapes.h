#pragma once
// The normal form of a schema, a list of shapes of which a value must have one. A shape describes
// values of one type with all limits that hold for them. SchemaNormalizer (schema_normalizer.h)
// makes shapes, and SchemaLowering (schema_lowering.h) turns them into rules of a grammar.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serve/grammar/string_language.h"
#include "serve/schema/number_language.h"
#include "serve/schema/schema_document.h"

namespace neuronmm::grammar {

using Language = std::shared_ptr<const StringLanguage>;

struct StringLimits {
  int64_t minimum = 0;  // in characters
  std::optional<int64_t> maximum;
  std::vector<Language> languages;  // the string is in all of them
  // Whether a format allows more strings than its language. The complement is then not known.
  bool partial = false;

  bool only_lengths() const { return languages.empty(); }
};

// The schemas of an array's items, as one schema gives them. An array shape may have several of
// these, which must all hold. A null schema allows anything.
struct ItemSchemas {
  std::vector<const Json*> prefix;
  const Json* rest = nullptr;  // the schema of the items after the prefix
  bool evaluates = true;       // whether unevaluatedItems treats these items as evaluated
  const Json* at(size_t index) const { return index < prefix.size() ? prefix[index] : rest; }
};

// The number of an array's items that must be valid for a schema.
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

// The schemas of an object's properties, as one schema gives them.
struct PropertySchemas {
  std::vector<std::string> names;  // in the schema's order
  std::unordered_map<std::string, const Json*> named;
  std::vector<std::pair<Language, const Json*>> patterns;
  const Json* additional = nullptr;  // the schema of all others, or nullptr for anything
  bool mentions_others = false;      // whether it has patterns or `additional`
  bool evaluates = true;  // whether unevaluatedProperties treats these properties as evaluated
  bool closes = false;    // whether it names all properties and does not mention others

  void add(const std::string& name, const Json* schema);
  // Returns the schemas that a property must satisfy, all of them.
  std::vector<const Json*> of(const std::string& name) const;
};

struct ObjectLimits {
  std::vector<std::shared_ptr<const PropertySchemas>> properties;
  std::vector<std::string> required;
  std::vector<Language> names;  // the name of every property is in all of them
  int64_t minimum = 0;
  std::optional<int64_t> maximum;
};

// The values of one type, or a list of constants. Only the limits of its kind count.
struct Shape {
  enum class Kind { kNull, kBoolean, kNumber, kString, kArray, kObject, kLiterals };
  Kind kind;
  NumberLimits number;
  StringLimits string;
  ArrayLimits array;
  ObjectLimits object;
  std::vector<const Json*> literals;  // for kLiterals: the value is one of these
  // Whether the shape may allow more than its schema, because a oneOf was taken as anyOf.
  bool may_exceed_schema = false;
};

using Shapes = std::vector<Shape>;

// Returns the shape of the values that both shapes allow. The shapes must have the same kind, which
// is not kLiterals.
Shape intersection(const Shape& a, const Shape& b);
// Returns an estimate of the memory of a shape, in bytes.
int64_t bytes_of(const Shape& shape);
// Charges copies of shapes. Returns an error if the budget is exceeded.
Status charge(const Shape& shape, Budget& budget);
Status charge(const Shapes& shapes, Budget& budget);
// Returns the strings within the limits. Returns an error if counting their characters takes too
// many states.
Result<StringLanguage> string_language(const StringLimits& limits, Budget& budget);
// Returns the strings within the limits, or only some of them if all would take too many states.
// The automaton then has about `states` states.
Result<StringLanguage> string_language_or_subset(const StringLimits& limits, int64_t states,
                                                 Budget& budget);
// Returns a text that equal values share, such as 1.0 and 1, or objects in a different order.
std::string canonical_text(const Json& value);

}  // namespace neuronmm::grammar
