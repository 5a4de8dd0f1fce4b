#include "io/foreign_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace neuronmm::io {
namespace {

constexpr int kWordBits = 32;
// AutoAWQ puts columns 0 ... 7 of eight: the place of column c is kPlaces[c].
constexpr std::array<int, 8> kPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t word_at(const TensorView& words, int64_t index) {
  uint32_t word = 0;
  std::memcpy(&word, words.data + index * static_cast<int64_t>(sizeof word), sizeof word);
  return word;
}

// Reads fields [first, first + count) of a row of codes whose neighbours share words. The row
// begins with word first_word, and word_step is from one of its words to the next.
void unpack_words(const FieldTable& table, int64_t first_word, int64_t word_step, int64_t first,
                  int64_t count, uint8_t* out) {
  const int64_t per_word = kWordBits / table.bits;
  const uint32_t mask = (uint32_t{1} << table.bits) - 1;
  for (int64_t i = 0; i < count;) {
    const int64_t place = (first + i) % per_word;
    const int64_t fields = std::min(count - i, per_word - place);
    uint32_t word =
        word_at(table.words, first_word + (first + i) / per_word * word_step) + table.added;
    word >>= table.bits * place;
    for (int64_t field = 0; field < fields; ++field, word >>= table.bits) {
      *out++ = static_cast<uint8_t>(word & mask);
    }
    i += fields;
  }
}

// Reads one field of each of neighbouring rows of words.
void unpack_column(const FieldTable& table, int64_t column, int64_t first, int64_t count,
                   uint8_t* out) {
  const int64_t width = table.words.columns(), per_word = kWordBits / table.bits;
  const auto place = static_cast<size_t>(column % per_word);
  const int shift = table.bits * (table.interleaved ? kPlaces[place] : static_cast<int>(place));
  const uint32_t mask = (uint32_t{1} << table.bits) - 1;
  int64_t index = first * width + column / per_word;
  for (int64_t i = 0; i < count; ++i, index += width) {
    out[i] = static_cast<uint8_t>((word_at(table.words, index) + table.added) >> shift & mask);
  }
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
  const int64_t width = code_table.words.columns();
  switch (code_table.packed) {
    case FieldTable::Packed::kBytes: {
      const auto* const from =
          reinterpret_cast<const uint8_t*>(code_table.words.data) + row * width + first;
      for (int64_t i = 0; i < count; ++i) out[i] = from[i] ^ code_table.flipped;
      return;
    }
    case FieldTable::Packed::kAlongRows:  // of a transposed table
      return unpack_words(code_table, row, width, first, count, out);
    case FieldTable::Packed::kAlongColumns:
      if (codes_transposed) return unpack_column(code_table, row, first, count, out);
      return unpack_words(code_table, row * width, 1, first, count, out);
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
