#pragma once
// Builds JSON values from the events of the parser and refuses numbers that would change. A whole
// number of more than 64 bits is stored as a double, which may have other digits. Such a number is
// refused in a schema, because answers would be held to the wrong number. Elsewhere it is accepted.
// parse_json_text() uses this class.

#include <optional>
#include <string>

#include "io/json_builder.h"
#include "serve/requests/json_body.h"

namespace neuronmm::serve {

// The builder of one text.
class RequestJsonBuilder : public io::BasicJsonBuilder<Json> {
 public:
  explicit RequestJsonBuilder(JsonOf what) : what_(what) {}

  bool number_float(double value, const std::string& text) override;

  struct ChangedNumber {
    std::string field;    // top-level field of the body
    std::string message;  // "response_format.json_schema.schema.const: expected ..., found ..."
  };
  // Returns the number that ended the parsing, if such a number did.
  const std::optional<ChangedNumber>& changed_number() const { return changed_; }

 private:
  const std::string& key_of(size_t level) const;
  bool is_enforced() const;
  std::string place() const;

  const JsonOf what_;
  std::optional<ChangedNumber> changed_;
};

}  // namespace neuronmm::serve
