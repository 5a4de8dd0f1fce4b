#pragma once
// Reads the fields of one JSON object of a request by their types. All readers of requests use it.
// The first wrong field is recorded in a RequestProblem, for the client. Reading then continues
// with default values, so that the readers need no code for errors.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "serve/protocol/json_body.h"

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

// Returns whether `value` is an object. If it is not, the error `path: expected an object with
// WITH, found ...` is recorded.
bool expect_object(const Json& value, const std::string& path, std::string_view with,
                   RequestProblem& problem);

// The reader of one object. A field that is absent or null reads as nullopt.
class FieldReader {
 public:
  // `object` and `problem` must outlive the reader. `path` is the beginning of the field names in
  // errors, for example "messages[0]."; it is empty for the body.
  FieldReader(const Json& object, std::string path, RequestProblem& problem);

  const Json* find(const std::string& key);  // nullptr if absent or null
  std::optional<bool> boolean(const std::string& key);
  std::optional<int64_t> integer(const std::string& key, int64_t lowest, int64_t highest);
  std::optional<double> number(const std::string& key, double lowest, double highest);
  std::optional<std::string> string(const std::string& key);
  // Reads a string. An absent string is recorded as an error.
  std::string required_string(const std::string& key);
  // Reads an array of integers from 0 to `highest`.
  std::vector<int64_t> integers(const std::string& key, int64_t highest);
  const Json* object(const std::string& key);  // nullptr if absent, null or wrong
  const Json* array(const std::string& key);

  // Records the field as not supported, unless its value means the same as its absence.
  void refuse(const std::string& key, std::string_view reason);
  void ignore(
      std::initializer_list<const char*> keys);  // marks fields as known that have no effect

  // Records the error `path: expected ..., found ...`.
  void wrong(const std::string& key, std::string_view expected);
  void fail(const std::string& key, const std::string& message);
  std::string path(const std::string& key) const { return path_ + key; }
  RequestProblem& problem() { return problem_; }

  const std::set<std::string, std::less<>>& asked() const { return asked_; }
  // Returns the keys of the object that no function has read.
  std::vector<std::string> unknown() const;

 private:
  const Json& object_;
  std::string path_;
  RequestProblem& problem_;
  std::set<std::string, std::less<>> asked_;
};

// Parses `body` and returns read(FieldReader of the object), or the first error of the request.
template <typename Read>
auto read_body(std::string_view body, const Read& read)
    -> ApiResult<std::invoke_result_t<Read, FieldReader&>> {
  NMM_ASSIGN(const Json root, parse_body(body));
  RequestProblem problem;
  FieldReader fields(root, "", problem);
  auto value = read(fields);
  if (problem.found()) return problem.error();
  return value;
}

}  // namespace neuronmm::serve
