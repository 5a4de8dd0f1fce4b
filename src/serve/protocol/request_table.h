#pragma once
// Tables of the fields that the bodies of requests may have. The reader of requests takes types,
// ranges and defaults from such a table (field_reader.h), and GET /openapi.json describes requests
// by the same table (openapi.h). So no field is read that is not described, and none is described
// that is not read.
//
// Each request_*.h of an API has a function that returns its table. A field that a reader asks for
// and its table lacks is a mistake of ours, which NMM_CHECK reports.

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
  // Joins several lists of fields. A name that occurs twice is a mistake of ours (NMM_CHECK).
  RequestTable(std::initializer_list<std::vector<RequestField>> lists);

  const std::vector<RequestField>& fields() const { return fields_; }
  // Returns nullptr if no field has this name.
  const RequestField* find(std::string_view name) const;
  // Returns the JSON Schema of the object, as OpenAPI 3.1 has it.
  Json schema() const;

 private:
  std::vector<RequestField> fields_;
};

// One field. A field that is null means the same as one that is absent, except where it is
// required.
struct RequestField {
  enum class Type {
    kBoolean,
    kInteger,       // from `lowest` to `highest`
    kNumber,        // from `least` to `most`
    kString,        // of at most `most_bytes`
    kTokenIds,      // an array of token ids
    kObject,        // an object with the fields of `inner`
    kOther,         // what `schema` describes; a reader of its own checks it
    kNotSupported,  // refused where it would change the answer; `meaning` says what to do
    kIgnored,       // known, and changes nothing
  };

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
  Json default_value = {};  // what holds without the field; null if the table does not know it
  Json schema = {};
  RequestTable inner = {};
  bool is_required = false;
};

// Schemas for RequestField::other. A component is a schema of openapi_template.json.
Json component_schema(std::string_view name);
Json nullable_schema(Json schema);
Json array_schema(Json items, std::optional<size_t> fewest, std::optional<size_t> most);

}  // namespace neuronmm::serve
