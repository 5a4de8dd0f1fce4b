#pragma once
// Tables of the fields that the bodies of requests may have. FieldReader takes types, ranges and
// defaults from a table, and GET /openapi.json describes requests by the same table (openapi.h). So
// a field cannot be read without being described, or described without being read.
//
// The header of each request (chat_request.h and others) has a function that returns its table. If
// a reader asks for a field that its table lacks, an NMM_CHECK fails.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/protocol/json_body.h"

namespace neuronmm::serve {

struct RequestField;

// The fields of one JSON object, sorted by name. Each name occurs once.
class RequestTable {
 public:
  RequestTable() = default;
  // Joins several lists of fields. A name that occurs twice fails an NMM_CHECK.
  RequestTable(std::initializer_list<std::vector<RequestField>> lists);

  const std::vector<RequestField>& fields() const { return fields_; }
  // Returns nullptr if no field has this name.
  const RequestField* find(std::string_view name) const;
  // Returns the JSON Schema of the object in the form of OpenAPI 3.1.
  Json schema() const;

 private:
  std::vector<RequestField> fields_;
};

// One field. A field that is null means the same as one that is absent, except where it is
// required.
struct RequestField {
  enum class Type {
    kBoolean,
    kInteger,       // an integer from `lowest` to `highest`
    kNumber,        // a number from `least` to `most`
    kString,        // a string of at most `most_bytes`
    kTokenIds,      // an array of token ids
    kObject,        // an object with the fields of `inner`
    kOther,         // a value that `schema` describes and code outside the table checks
    kNotSupported,  // refused if it would change the answer; `meaning` says what to do instead
    kIgnored,       // accepted without an effect
  };

  // Make a field of one type. `meaning` is its description in /openapi.json.
  static RequestField boolean(std::string name, std::string meaning);
  static RequestField integer(std::string name, int64_t lowest, int64_t highest,
                              std::string meaning);
  static RequestField number(std::string name, double least, double most, std::string meaning);
  static RequestField string(std::string name, std::string meaning);
  static RequestField token_ids(std::string name, std::string meaning);
  static RequestField object(std::string name, std::vector<RequestField> inner,
                             std::string meaning);
  // `schema` has to allow null, unless the field is required.
  static RequestField other(std::string name, Json schema, std::string meaning = {});
  static RequestField not_supported(std::string name, std::string reason);
  static std::vector<RequestField> ignored(std::initializer_list<const char*> names);

  // Return the field with one more property, for chains like boolean("echo",
  // "...").by_default(false).
  RequestField by_default(Json value) &&;
  RequestField required() &&;
  RequestField at_most_bytes(size_t bytes) &&;

  // Returns the JSON Schema of the field's value.
  Json schema_of_value() const;

  std::string name;
  Type type = Type::kOther;
  std::string meaning = {};
  int64_t lowest = 0, highest = 0;
  double least = 0.0, most = 0.0;
  std::optional<size_t> most_bytes = {};
  Json default_value = {};  // the value of an absent field; null if the table has none
  Json schema = {};
  RequestTable inner = {};
  bool is_required = false;
};

// Return schemas for RequestField::other: a reference to a schema of openapi_template.json, a
// schema that also allows null, and an array with limits for its length.
Json component_schema(std::string_view name);
Json nullable_schema(Json schema);
Json array_schema(Json items, std::optional<size_t> fewest, std::optional<size_t> most);

}  // namespace neuronmm::serve
