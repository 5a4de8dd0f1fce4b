#pragma once
// Reads the fields of a JSON object in a request by type. All readers of requests use it. The first
// error is recorded for the client. Reading then goes on with defaults, so the readers need no code
// for errors.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "serve/protocol/json_body.h"
#include "serve/protocol/request_table.h"
#include "text/token_id.h"

namespace neuronmm::serve {

// The first error that was found in a request, if any.
class RequestProblem {
 public:
  void add(ApiError error) {
    if (!error_) error_ = std::move(error);
  }
  bool found() const { return error_.has_value(); }
  const ApiError& error() const { return *error_; }

 private:
  std::optional<ApiError> error_;
};

// Returns whether `value` is an object. If it is not, records the error `path: expected an object
// with WITH, found ...`.
bool expect_object(const Json& value, const std::string& path, std::string_view with,
                   RequestProblem& problem);

// Reads one object. A field that is absent or null reads as the table's default, or as nullopt if
// the table has none. A reader with a table takes each field's type and range from it. Asking for a
// field that the table lacks fails an NMM_CHECK. A reader without a table is for objects whose
// fields depend on a "type", such as tools and parts of messages; it cannot read integers and
// numbers.
class FieldReader {
 public:
  // `object`, `problem` and `table` must outlive the reader. `path` begins the names of fields in
  // errors: "messages[0]." for a message, empty for the body.
  FieldReader(const Json& object, std::string path, RequestProblem& problem,
              const RequestTable* table = nullptr);

  // Returns nullptr if the field is absent or null.
  const Json* find(const std::string& key);
  std::optional<bool> boolean(const std::string& key);
  std::optional<int64_t> integer(const std::string& key);
  std::optional<double> number(const std::string& key);
  std::optional<std::string> string(const std::string& key);
  std::vector<text::TokenId> token_ids(const std::string& key);
  // Return the value of a field for which the table has a default.
  bool boolean_or_default(const std::string& key) { return boolean(key).value(); }
  int64_t integer_or_default(const std::string& key) { return integer(key).value(); }
  double number_or_default(const std::string& key) { return number(key).value(); }
  // Records an error if the field is absent.
  std::string required_string(const std::string& key);
  // Return nullptr if the field is absent or null, or has another type, which is recorded.
  const Json* object(const std::string& key);
  const Json* array(const std::string& key);
  // Returns a reader of the object at `key` with the table of its fields, and refuses what that
  // table does not support. Returns nothing if object(key) is nullptr.
  std::optional<FieldReader> inner(const std::string& key);

  // Records that the field is not supported, unless its value has no effect: null, false, or empty.
  void refuse(const std::string& key, std::string_view reason);
  // Refuses all fields of the table that are not supported.
  void refuse_unsupported();

  // Records `path: expected ..., found ...`.
  void wrong(const std::string& key, std::string_view expected);
  // Records `path: message`.
  void fail(const std::string& key, const std::string& message);
  std::string path(const std::string& key) const { return path_ + key; }
  RequestProblem& problem() { return problem_; }

  // Returns the keys of the object that the table lacks.
  std::vector<std::string> unknown() const;

 private:
  // Returns the table's field, or nullptr if there is no table.
  const RequestField* field_of(const std::string& key) const;
  const RequestField& field_of(const std::string& key, RequestField::Type type) const;

  const Json& object_;
  std::string path_;
  RequestProblem& problem_;
  const RequestTable* table_;
};

// Returns what `read` makes of the JSON object in `body`, or the first error in it. `table` has the
// fields that the body may have.
template <typename Read>
auto read_body(std::string_view body, const RequestTable& table, const Read& read)
    -> ApiResult<std::invoke_result_t<Read, FieldReader&>> {
  NMM_ASSIGN(const Json root, parse_body(body));
  RequestProblem problem;
  FieldReader fields(root, "", problem, &table);
  auto value = read(fields);
  fields.refuse_unsupported();
  if (problem.found()) return problem.error();
  return value;
}

}  // namespace neuronmm::serve
