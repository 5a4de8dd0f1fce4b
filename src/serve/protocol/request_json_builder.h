#pragma once
// Whole numbers beyond 64 bits are doubles once they are read, which may have other digits. That
// matters where a schema holds answers to them: there they are refused.

#include <optional>
#include <string>

#include "io/json_builder.h"
#include "serve/protocol/json_body.h"

namespace neuronmm::serve {

class RequestJsonBuilder : public io::BasicJsonBuilder<Json> {
 public:
  explicit RequestJsonBuilder(JsonOf what) : what_(what) {}

  bool number_float(double value, const std::string& text) override;

  struct ChangedNumber {
    std::string field;    // of the body
    std::string message;  // "response_format.json_schema.schema.const: expected ..., found ..."
  };
  // The one that parsing ended with, if it is one.
  const std::optional<ChangedNumber>& changed_number() const { return changed_; }

 private:
  const std::string& key_of(size_t level) const;
  bool is_enforced() const;
  std::string place() const;

  const JsonOf what_;
  std::optional<ChangedNumber> changed_;
};

}  // namespace neuronmm::serve
