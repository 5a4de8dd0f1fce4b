#pragma once
// Tables of the fields that the bodies of requests may have. FieldReader (field_reader.h) takes
// types, ranges and defaults from such a table, and GET /openapi.json describes requests by the
// same table (openapi.h). The description and the reader therefore never contradict each other.
//
// The *_request.h file of each API has a function that returns its table. If a reader asks for a
// field that its table lacks, the program has a bug, and NMM_CHECK stops it.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/requests/json_body.h"

namespace neuronmm::serve {

struct RequestField;

// The fields of one JSON object, sorted by name. No name occurs twice.
class RequestTable {
 public:
  RequestTable() = default;
  // Joins several lists of fields. No name may occur twice, which NMM_CHECK verifies.
  RequestTable(std::initializer_list<std::vector<RequestField>> lists);
  // Returns a table that also has those fields of `others` whose names this table lacks.
  RequestTable with_others(const std::vector<RequestField>& others) const;

  const std::vector<RequestField>& fields() const { return fields_; }
  // Returns the field with this name, or nullptr if there is none.
  const RequestField* find(std::string_view name) const;
  // Returns the JSON Schema of the object in the form of OpenAPI 3.1.
  Json schema() const;

 private:
  std::vector<RequestField> fields_;
};

// A field of an object. A value of null means the same as an absent field, unless the field is
// required.
struct RequestField {
  enum class Type {
    kBoolean,
    kInteger,   // an integer from `lowest` to `highest`
    kNumber,    // a number from `least` to `most`
    kString,    // a string of at most `most_bytes` bytes
    kTokenIds,  // an array of token ids
    kObject,    // an object with the fields of `inner`
    kOther,     // a value that `schema` describes; the API's own code checks it
    // The field is refused if it would change the answer. `meaning` tells the client what to do.
    kNotSupported,
    kIgnored,  // the field is known and has no effect
  };

  // Return a field of a type. `meaning` is its description in /openapi.json.
  static RequestField boolean(std::string name, std::string meaning);
  static RequestField integer(std::string name, int64_t lowest, int64_t highest,
                              std::string meaning);
  static RequestField number(std::string name, double least, double most, std::string meaning);
  static RequestField string(std::string name, std::string meaning);
  static RequestField token_ids(std::string name, std::string meaning);
  static RequestField object(std::string name, std::vector<RequestField> inner,
                             std::string meaning);
  // Returns a field of type kOther. `schema` must allow null, unless the field is required.
  static RequestField other(std::string name, Json schema, std::string meaning = {});
  static RequestField not_supported(std::string name, std::string reason);
  static std::vector<RequestField> ignored(std::initializer_list<const char*> names);

  // Return this field with one property changed, so that calls can be chained.
  RequestField by_default(Json value) &&;
  RequestField required() &&;
  RequestField at_most_bytes(size_t bytes) &&;
  // Allows exactly these values of a field that is not supported, because they change nothing.
  // Without this call, the allowed values are false, an empty text, array or object.
  RequestField unless(std::vector<Json> values) &&;
  // Allows all numbers up to `most` of a field that is not supported.
  RequestField unless_at_most(double most) &&;

  // Returns whether a value of a field that is not supported changes nothing.
  bool is_harmless(const Json& value) const;

  // Returns the JSON Schema of the field's value.
  Json schema_of_value() const;

  std::string name;
  Type type = Type::kOther;
  std::string meaning = {};
  int64_t lowest = 0, highest = 0;
  double least = 0.0, most = 0.0;
  std::optional<size_t> most_bytes = {};
  Json default_value = {};  // the value of an absent field; null if the table gives none
  Json schema = {};
  RequestTable inner = {};
  bool is_required = false;
  std::vector<Json> harmless = {};  // see unless()
  std::optional<double> harmless_most = {};
};

// Return schemas for RequestField::other(). component_schema() refers to the schema `name` of
// openapi_template.json. nullable_schema() allows null in addition.
Json component_schema(std::string_view name);
Json nullable_schema(Json schema);
Json array_schema(Json items, std::optional<size_t> fewest, std::optional<size_t> most);

}  // namespace neuronmm::serve
