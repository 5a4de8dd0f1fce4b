#pragma once
// Turns an Error of the libraries into a C++ exception, which is neuronmm.Error in Python. All
// bindings use it.

#include <stdexcept>
#include <utility>

#include "base/printable.h"
#include "base/result.h"

namespace neuronmm::python {

// The exception. Its message is printable, and names the argument that would replace an existing
// folder.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const Error& error) : std::runtime_error(message_of(error)) {}

 private:
  static std::string message_of(const Error& error) {
    const bool exists = error.kind == Error::Kind::kExists;
    return printable(error.message) + (exists ? "; force=True replaces it" : "");
  }
};

// Returns the value, or throws its error as a Failure.
template <typename T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw Failure(result.error());
  return std::move(result).value();
}

}  // namespace neuronmm::python
