#include "io/foreign_matrix.h"

#include <array>
#include <cstring>

namespace neuronmm::io {
namespace {

constexpr int kWordBits = 32;
// Where AutoAWQ puts columns 0 ... 7 of eight: the place of column c is kPlaces[c].
constexpr std::array<int, 8> kPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t word_at(const TensorView& words, int64_t index) {
  uint32_t word = 0;
  std::memcpy(&word, words.data + index * static_cast<int64_t>(sizeof word), sizeof word);
  return word;
}

}  // namespace

uint8_t FieldTable::at(int64_t i, int64_t j) const {
  if (packed == Packed::kBytes) {
    return static_cast<uint8_t>(words.data[i * words.columns() + j]) ^ flipped;
  }
  const int64_t per_word = kWordBits / bits;
  const bool rows = packed == Packed::kAlongRows;
  const int64_t index =
      rows ? i / per_word * words.columns() + j : i * words.columns() + j / per_word;
  const auto place = static_cast<size_t>((rows ? i : j) % per_word);
  const int shift = bits * (interleaved ? kPlaces[place] : static_cast<int>(place));
  const uint32_t mask = (uint32_t{1} << bits) - 1;
  return static_cast<uint8_t>((word_at(words, index) + added) >> shift & mask);
}

float ScaleTable::at(int64_t row, int64_t group) const {
  float scale = 0;
  to_floats(values, row / rows_per_scale * row_stride + group * group_stride, 1, &scale);
  return scale;
}

void ForeignMatrix::codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const {
  if (code_table.packed == FieldTable::Packed::kBytes) {
    const auto* const from = reinterpret_cast<const uint8_t*>(code_table.words.data) +
                             row * code_table.words.columns() + first;
    for (int64_t i = 0; i < count; ++i) out[i] = from[i] ^ code_table.flipped;
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    out[i] = codes_transposed ? code_table.at(first + i, row) : code_table.at(row, first + i);
  }
}

void ForeignMatrix::grid(int64_t row, float* scales, float* zeros) const {
  for (int64_t g = 0; g < group_count; ++g) {
    scales[g] = scale_table.at(row, g);
    zeros[g] = zero_offset;
    if (zero_table.words.empty()) continue;
    zeros[g] +=
        static_cast<float>(zeros_transposed ? zero_table.at(g, row) : zero_table.at(row, g));
  }
}

}  // namespace neuronmm::io
