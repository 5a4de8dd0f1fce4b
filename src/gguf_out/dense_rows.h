#pragma once
// The rows of a weight as a dense matrix, whichever form the folder stores it in. GGUF files have
// no factors and no pivots, so these are multiplied out, one row at a time.

#include <cstdint>
#include <memory>

#include "ops/weights.h"

namespace neuronmm::gguf_out {

// A dense matrix [rows, columns].
class DenseRows {
 public:
  virtual ~DenseRows() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t columns() const = 0;
  // Writes the values of one row in fp32. Several threads may call it at once.
  virtual void read(int64_t row, float* out) const = 0;
  // Returns the weight if it is stored as it is, and null if it has factors or pivots.
  virtual const ops::WeightView* stored() const { return nullptr; }
};

// Opens the rows of a weight, which must outlive the result. `input` are pivots that the matrix
// shares with others (ops::MlpWeight::in), or none. Factors are copied to memory in fp32. Products
// are sums in fp64 that are rounded once.
std::unique_ptr<DenseRows> dense_rows(const ops::LinearWeight& weight,
                                      const ops::Pivots& input = {});

}  // namespace neuronmm::gguf_out
