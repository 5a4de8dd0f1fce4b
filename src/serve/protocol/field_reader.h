#pragma once
// The fields of one JSON object of a request, read by type. The first that is wrong is what the
// client is told; reading goes on with defaults, so that the readers have no paths for errors.

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

// What is wrong with a request: the first error that was found in it.
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

// False where `value` is none, which is recorded: `path: expected an object with WITH, found ...`.
bool expect_object(const Json& value, const std::string& path, std::string_view with,
                   RequestProblem& problem);

// A field that is absent or null reads as the table's default, or as nullopt if there is none. A
// reader with a table knows each field's type and range from it, and NMM_CHECK reports a field that
// the table lacks. A reader without one is for objects whose fields depend on a "type", like tools
// and parts of messages; it knows neither integers nor numbers.
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
  // The same for fields whose default the table has.
  bool boolean_or_default(const std::string& key) { return boolean(key).value(); }
  int64_t integer_or_default(const std::string& key) { return integer(key).value(); }
  double number_or_default(const std::string& key) { return number(key).value(); }
  // Records an error if the field is absent.
  std::string required_string(const std::string& key);
  // Return nullptr if the field is absent or null, or has another type, which is recorded.
  const Json* object(const std::string& key);
  const Json* array(const std::string& key);
  // Returns a reader of the object at `key` with the table of its fields, and refuses what that
  // table does not support. Returns nothing where object(key) is nullptr.
  std::optional<FieldReader> inner(const std::string& key);

  // Records that the field is not supported, unless its value means the same as no field.
  void refuse(const std::string& key, std::string_view reason);
  // Refuses all fields of the table that are not supported.
  void refuse_unsupported();

  // Records `path: expected ..., found ...`.
  void add_mismatch(const std::string& key, std::string_view expected);
  // Records `path: message`.
  void add_error(const std::string& key, const std::string& message);
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
