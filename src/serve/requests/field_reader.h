#pragma once
// Reads the fields of a JSON object of a request by their types. The first wrong field is recorded
// as the error for the client. Reading then continues with defaults, so the callers need no code
// for errors. All readers of requests (*_request.cc) use this file.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "serve/requests/json_body.h"
#include "serve/requests/request_table.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::serve {

// The first error that was found in a request, if there is one.
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

// Returns the token id that a number is; nothing if it is not a whole number from 0 to 2^31 - 1.
std::optional<text::TokenId> as_token_id(const Json& value);
// Returns the token id that a text writes with digits, as keys of objects do; nothing for another
// text.
std::optional<text::TokenId> token_id_of_digits(std::string_view text);

// Returns whether `value` is an object. If it is not, records the error `path: expected an object
// with WITH, found ...`.
bool expect_object(const Json& value, const std::string& path, std::string_view with,
                   RequestProblem& problem);

// The reader of one object. A field that is absent or null has the default of the table, or nullopt
// if the table gives none. A reader with a table takes the types and ranges of fields from it.
// Asking for a field that the table lacks is a bug, which NMM_CHECK reports. A reader without a
// table is for objects whose fields depend on a "type", such as tools and parts of messages. Such a
// reader must not be asked for integers or numbers.
class FieldReader {
 public:
  // `object`, `problem` and `table` must outlive the reader. `path` is put before the names of
  // fields in errors: "messages[0]." for a message, and an empty text for the body.
  FieldReader(const Json& object, std::string path, RequestProblem& problem,
              const RequestTable* table = nullptr);

  // Returns the value of a field, or nullptr if the field is absent or null.
  const Json* find(const std::string& key);
  // Return the value of a field. A value of another type or out of range is recorded as an error.
  std::optional<bool> boolean(const std::string& key);
  std::optional<int64_t> integer(const std::string& key);
  std::optional<double> number(const std::string& key);
  std::optional<std::string> string(const std::string& key);
  std::vector<text::TokenId> token_ids(const std::string& key);
  // Return the value of a field that has a default in the table.
  bool boolean_or_default(const std::string& key) { return boolean(key).value(); }
  int64_t integer_or_default(const std::string& key) { return integer(key).value(); }
  double number_or_default(const std::string& key) { return number(key).value(); }
  // Returns the string. Records an error and returns an empty string if there is none.
  std::string required_string(const std::string& key);
  // Return the value of a field, or nullptr if the field is absent or null. Record an error and
  // return nullptr if the value has another type.
  const Json* object(const std::string& key);
  const Json* array(const std::string& key);
  // Returns a reader of the object at `key`, with the table of its fields, and refuses the fields
  // that this table does not support. Returns nothing if object(key) is nullptr.
  std::optional<FieldReader> inner(const std::string& key);

  // Record that the field is not supported, unless its value has no effect
  // (RequestField::is_harmless()).
  void refuse(const RequestField& field);
  void refuse(const std::string& key, std::string_view reason) {
    refuse(RequestField::not_supported(key, std::string(reason)));
  }
  // Refuses all fields of the table that are not supported.
  void refuse_unsupported();

  // Records the error `path: expected ..., found ...`.
  void add_mismatch(const std::string& key, std::string_view expected);
  // Records the error `path: message`.
  void add_error(const std::string& key, const std::string& message);
  std::string path(const std::string& key) const { return path_ + key; }
  RequestProblem& problem() { return problem_; }

  // Returns the keys of the object that the table lacks.
  std::vector<std::string> unknown() const;

 private:
  // Return the table's field. NMM_CHECK verifies that it exists and has the given type. Without a
  // table, the first function returns nullptr.
  const RequestField* field_of(const std::string& key) const;
  const RequestField& field_of(const std::string& key, RequestField::Type type) const;

  const Json& object_;
  std::string path_;
  RequestProblem& problem_;
  const RequestTable* table_;
};

// Parses the JSON object in `body` and returns the result of read(reader of the object), or the
// first error. `table` has the fields that the body may have.
template <typename Read>
auto read_body(std::string_view body, const RequestTable& table, const Read& read)
    -> ApiResult<std::invoke_result_t<Read, FieldReader&>> {
  NMM_ASSIGN(Json root, parse_body(body));
  RequestProblem problem;
  FieldReader fields(root, "", problem, &table);
  auto value = read(fields);
  fields.refuse_unsupported();
  if (problem.found()) return problem.error();
  return value;
}

}  // namespace neuronmm::serve
