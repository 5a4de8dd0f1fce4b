#pragma once
// An Error of the libraries as an exception: neuronmm.Error in Python.

#include <stdexcept>
#include <utility>

#include "base/printable.h"
#include "base/result.h"

namespace neuronmm::python {

class Failure : public std::runtime_error {
 public:
  explicit Failure(const Error& error) : std::runtime_error(message_of(error)) {}

 private:
  static std::string message_of(const Error& error) {
    const bool exists = error.kind == Error::Kind::kExists;
    return printable(error.message) + (exists ? "; force=True replaces it" : "");
  }
};

template <typename T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw Failure(result.error());
  return std::move(result).value();
}

}  // namespace neuronmm::python
