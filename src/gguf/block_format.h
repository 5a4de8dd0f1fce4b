#pragma once
// The types of GGUF's tensors as foreign formats (base/tensor.h), so that everything that reads
// floats reads blocks where they lie in the file.

#include <cstdint>
#include <string_view>

#include "base/tensor.h"
#include "gguf/gguf_types.h"

namespace neuronmm::gguf {

// A type of blocks, the order of a matrix's rows, and what the matrix is packed as.
class BlockFormat : public ForeignFormat {
 public:
  // If `head_rows` is not 0, the rows of the file's tensor lie in heads of so many rows, as
  // interleaved pairs. Readers see the two rows of a pair half a head apart (gguf/weights.h).
  BlockFormat(const io::GgufTypeInfo& type, int64_t head_rows, const LowBitFormat& packed)
      : type_(type), head_rows_(head_rows), packed_(packed) {}

  std::string_view name() const override { return type_.name; }
  int64_t size_bytes(const Shape& shape) const override;
  void read(const TensorView& tensor, int64_t first, int64_t count, float* out) const override;
  LowBitFormat packed_format() const override { return packed_; }

 private:
  void read_in_row(const std::byte* row, int64_t first, int64_t count, float* out) const;

  const io::GgufTypeInfo& type_;
  int64_t head_rows_;
  LowBitFormat packed_;
};

// Returns the row of the file's tensor that readers see as row `row`, in heads of `head_rows` rows.
// If it is 0, that is `row` itself.
int64_t stored_row(int64_t row, int64_t head_rows);

}  // namespace neuronmm::gguf
