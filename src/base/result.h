#pragma once
// Errors as values. Everything that can fail because of the outside world (files, flags, prompts)
// returns Result<T> or Status. A message names the file or flag, what was expected and what was
// found. Our own mistakes are found by NMM_CHECK, which ends the process.

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace neuronmm {

// An error message and its kind.
struct Error {
  // Kinds that callers treat differently:
  //   kFailure      everything else
  //   kInterrupted  the work was interrupted
  //   kExists       an output exists already and may be replaced on request
  //   kUnfinished   an interrupted run was kept; it may be continued or discarded
  // For the last two a program can name the flag that helps, and a server the field.
  enum class Kind { kFailure, kInterrupted, kExists, kUnfinished };
  std::string message;
  Kind kind = Kind::kFailure;
};

// Returns the Error with this formatted message, for example fail("{}: expected ..., found ...",
// path, ...).
template <typename... Args>
Error fail(fmt::format_string<Args...> format, Args&&... args) {
  return Error{fmt::format(format, std::forward<Args>(args)...)};
}

// A value, or an error of type E. E is an Error for most callers; for a server it is the response
// to send.
template <typename T, typename E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const E& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, E> state_;
};

// Success, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace neuronmm

#define NMM_CONCAT_(a, b) a##b
#define NMM_CONCAT(a, b) NMM_CONCAT_(a, b)

// NMM_TRY(expression) returns the error of a Status or Result from the enclosing function.
#define NMM_TRY(...)                                         \
  do {                                                       \
    if (auto nmm_status = (__VA_ARGS__); !nmm_status.ok()) { \
      return nmm_status.error();                             \
    }                                                        \
  } while (false)

// NMM_ASSIGN(auto x, expression) sets x to the value, or returns the error from the enclosing
// function.
#define NMM_ASSIGN(lhs, ...) NMM_ASSIGN_(NMM_CONCAT(nmm_result_, __LINE__), lhs, __VA_ARGS__)
#define NMM_ASSIGN_(result, lhs, ...)      \
  auto result = (__VA_ARGS__);             \
  if (!result.ok()) return result.error(); \
  lhs = std::move(result).value()

// NMM_CHECK(condition) ends the process if an invariant of ours does not hold. It is always on and
// never checks input.
#define NMM_CHECK(condition)                                                             \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
