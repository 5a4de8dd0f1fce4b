#pragma once
// The fields of one JSON object of a request, read by type. The first that is wrong is what the
// client is told; reading goes on with defaults, so that the readers have no paths for errors.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "serve/protocol/json_body.h"

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

// A field that is absent or null reads as nullopt.
class FieldReader {
 public:
  // `object` and `problem` must outlive this. `path` begins the names of fields: "messages[0].";
  // empty for the body.
  FieldReader(const Json& object, std::string path, RequestProblem& problem);

  const Json* find(const std::string& key);  // nullptr: absent or null
  std::optional<bool> boolean(const std::string& key);
  std::optional<int64_t> integer(const std::string& key, int64_t lowest, int64_t highest);
  std::optional<double> number(const std::string& key, double lowest, double highest);
  std::optional<std::string> string(const std::string& key);
  // Recorded as wrong where it is absent.
  std::string required_string(const std::string& key);
  // Integers of [0, highest].
  std::vector<int64_t> integers(const std::string& key, int64_t highest);
  const Json* object(const std::string& key);  // nullptr: absent, null or wrong
  const Json* array(const std::string& key);

  // The field is there and is not what a request without it means: recorded as not supported.
  void refuse(const std::string& key, std::string_view reason);
  void ignore(std::initializer_list<const char*> keys);  // known, and changing nothing

  // `path: expected ..., found ...`
  void wrong(const std::string& key, std::string_view expected);
  void fail(const std::string& key, const std::string& message);
  std::string path(const std::string& key) const { return path_ + key; }
  RequestProblem& problem() { return problem_; }

  const std::set<std::string, std::less<>>& asked() const { return asked_; }
  // Keys that nobody asked for.
  std::vector<std::string> unknown() const;

 private:
  const Json& object_;
  std::string path_;
  RequestProblem& problem_;
  std::set<std::string, std::less<>> asked_;
};

// What `read` makes of the object that `body` is, or the first thing that is wrong with it.
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
