#pragma once
// Errors as values. Everything that can fail because of the outside world (files, flags, prompts)
// returns Result<T> or Status; a message names the file or flag, what was expected and what was
// found. Our own mistakes are CHECKs.

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace neuronmm {

struct Error {
  // What a caller may act on. A program can name the flag, a server the field, that would help:
  // kExists: an output is there already and may be replaced on request. kUnfinished: a run that was
  // interrupted is kept and may be continued or forgotten.
  enum class Kind { kFailure, kInterrupted, kExists, kUnfinished };
  std::string message;
  Kind kind = Kind::kFailure;
};

// fail("{}: expected ..., found ...", path, ...): the Error with that message.
template <typename... Args>
Error fail(fmt::format_string<Args...> format, Args&&... args) {
  return Error{fmt::format(format, std::forward<Args>(args)...)};
}

// `E` is what there is instead of a value: for most an Error, for a server what it answers.
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

// NMM_TRY(expression): returns the error of a Status or Result from the enclosing function.
#define NMM_TRY(...)                                         \
  do {                                                       \
    if (auto nmm_status = (__VA_ARGS__); !nmm_status.ok()) { \
      return nmm_status.error();                             \
    }                                                        \
  } while (false)

// NMM_ASSIGN(auto x, expression): x = the value, or returns the error from the enclosing function.
#define NMM_ASSIGN(lhs, ...) NMM_ASSIGN_(NMM_CONCAT(nmm_result_, __LINE__), lhs, __VA_ARGS__)
#define NMM_ASSIGN_(result, lhs, ...)      \
  auto result = (__VA_ARGS__);             \
  if (!result.ok()) return result.error(); \
  lhs = std::move(result).value()

// NMM_CHECK(condition): an invariant of ours, never a check of input. Always on.
#define NMM_CHECK(condition)                                                             \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
