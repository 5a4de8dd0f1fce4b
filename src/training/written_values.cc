#include "training/written_values.h"

#include <algorithm>
#include <utility>

#include "base/pieces.h"

namespace neuronmm::training {
namespace {

// The elements that are rounded together, and the work of one in multiply-adds. Assumed.
constexpr int64_t kPiece = 4096, kRoundWork = 8;

}  // namespace

template <typename T>
void round_to(DType dtype, Rows<T>& values) {
  if (dtype == DType::kF32) return;
  const int64_t pieces = (values.size() + kPiece - 1) / kPiece;
  for_each_piece(pieces, kRoundWork * kPiece, [&](int64_t from, int64_t to) {
    std::vector<float> floats(static_cast<size_t>(kPiece));
    std::vector<std::byte> bytes;
    for (int64_t i = from; i < to; ++i) {
      T* const first = values.data() + i * kPiece;
      const int64_t count = std::min(kPiece, values.size() - i * kPiece);
      std::transform(first, first + count, floats.begin(),
                     [](T value) { return static_cast<float>(value); });
      bytes.clear();
      append_rounded(dtype, floats.data(), count, bytes);
      to_floats(TensorView{dtype, {count}, bytes.data()}, 0, count, floats.data());
      std::copy_n(floats.begin(), count, first);
    }
  });
}

template <typename T>
WrittenValues<T>::WrittenValues(const std::vector<Parameter<T>*>& parameters,
                                const DTypeOf& dtype_of) {
  for (Parameter<T>* const parameter : parameters) {
    const std::optional<DType> dtype = dtype_of(*parameter);
    if (!dtype || *dtype == DType::kF32) continue;
    if (parameter->rows > 1) {
      parameter->written = *dtype;
      matrices_.push_back(parameter);
    } else {
      vectors_.push_back({parameter, copy_of<T>(parameter->value.view())});
      round_to(*dtype, parameter->value);
    }
    parameter->changed();
  }
}

template <typename T>
WrittenValues<T>::~WrittenValues() {
  for (Parameter<T>* const matrix : matrices_) {
    matrix->written.reset();
    matrix->changed();
  }
  for (Vector& vector : vectors_) {
    vector.parameter->value = std::move(vector.values);
    vector.parameter->changed();
  }
}

template void round_to(DType, Rows<float>&);
template void round_to(DType, Rows<double>&);
template class WrittenValues<float>;
template class WrittenValues<double>;

}  // namespace neuronmm::training
