#pragma once
// Trained values as a folder will hold them. A folder may have a dtype of fewer bits than fp32, in
// which tensors are trained, so that a state has to be judged by its rounded values.

#include <functional>
#include <optional>
#include <vector>

#include "base/tensor.h"
#include "training/tape.h"

namespace neuronmm::training {

// Rounds the values to a float dtype and back.
template <typename T>
void round_to(DType dtype, Rows<T>& values);

// Makes trained tensors compute with the values that will be written, for as long as the object
// lives. Matrices are rounded while they are packed, so that this takes no memory.
template <typename T>
class WrittenValues {
 public:
  // `dtype_of` returns the dtype in which a tensor will be written, or nothing if its values are
  // written as they are. The parameters must outlive this object.
  using DTypeOf = std::function<std::optional<DType>(const Parameter<T>&)>;
  WrittenValues(const std::vector<Parameter<T>*>& parameters, const DTypeOf& dtype_of);
  ~WrittenValues();
  WrittenValues(const WrittenValues&) = delete;
  WrittenValues& operator=(const WrittenValues&) = delete;

 private:
  struct Vector {
    Parameter<T>* parameter;
    Rows<T> values;  // not rounded
  };
  std::vector<Parameter<T>*> matrices_;
  std::vector<Vector> vectors_;
};

}  // namespace neuronmm::training
