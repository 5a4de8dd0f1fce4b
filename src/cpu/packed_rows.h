#pragma once
// Activations in the order in which the matmul kernels read them. The rows are cut into tiles of at
// most so many rows as fit in registers (`Kernels`), the tiles into quads of 4 rows, the last of
// which may be smaller.
//
//   fp32, for fp32 weights, and for bf16 ones where the CPU has no dot products of bf16: within a
//         block of k_block columns, each quad lies as [k][rows of the quad]. One row is its own
//         packing.
//   bf16 (rounded to nearest even), for bf16 weights where it has: the same with words [k / 2][rows
//         of the quad], a word holding 2 neighbouring columns, the lower in its low half; zeros
//         beyond the last up to a multiple of 32. Where AMX multiplies (`Kernels::amx`), a tile
//         lies as [k / 32][row][16 words] instead.
//   int8, for weights of 8, 6 and 4 bits: tile after tile, and in a tile for each group of
//         kQuantGroup columns a scale (fp32) per row, a correction (int32) per row, four words of
//         sums per row, then quads of words [k / 4][rows of the quad], a word holding the bytes of
//         4 neighbouring columns, zeros beyond the last up to a multiple of 32. x = scale · byte;
//         correction = -128 · (sum of the row's bytes in the group), see packed_matrix.h; word i of
//         the sums holds those of columns 32 i ... 32 i + 15 in its low half and of the next 16 in
//         its high one, for codes that are multiplied as they are (code_matmul-inl.h). Where AMX
//         multiplies, a tile of more than half of `Kernels::tile_rows` holds the bytes of all its
//         groups, each as rows of 128, and then the scales, corrections and sums of all groups.

#include <algorithm>
#include <cstdint>

#include "ops/weights.h"

namespace neuronmm::cpu {

inline constexpr int64_t kQuad = 4;
inline constexpr int64_t kQuantGroup = ops::kQuantGroup;
inline constexpr int64_t kWordBytes = 4;
// What precedes the bytes of a group, in words per row: scale, correction, sums.
inline constexpr int64_t kSumWords = 4;
inline constexpr int64_t kHeaderWords = 2 + kSumWords;
// Words behind the last row that may be read, so that all can be read as vectors.
inline constexpr int64_t kRowPadding = 16;

// The words of bytes of `columns` columns, in pieces of 32.
inline constexpr int64_t kPieceWords = 32 / kWordBytes;
constexpr int64_t int8_words(int64_t columns) {
  return (columns + kPieceWords * kWordBytes - 1) / (kPieceWords * kWordBytes) * kPieceWords;
}

// The words of bf16 of `columns` columns: whole steps of 32.
inline constexpr int64_t kBf16StepWords = 16;
constexpr int64_t bf16_words(int64_t columns) {
  return (columns + 2 * kBf16StepWords - 1) / (2 * kBf16StepWords) * kBf16StepWords;
}

struct ColumnRange {
  int64_t first = 0, count = 0;
};

struct PackedRows {
  const float* data = nullptr;     // fp32, or
  const int32_t* words = nullptr;  // bf16 or int8
  int64_t rows = 0;
  int64_t k = 0;
  int64_t k_block = 0;  // blocks of K lie one after the other; the last may be shorter
  int64_t tiles = 0;
  int64_t unit = 1;  // heights are multiples of it, but for the last tile's

  // Tiles of nearly equal height: 13 rows are 6 + 7, not 12 + 1.
  int64_t first_row(int64_t tile) const {
    return std::min(rows, (rows + unit - 1) / unit * tile / tiles * unit);
  }
  int64_t tile_rows(int64_t tile) const { return first_row(tile + 1) - first_row(tile); }
  int64_t highest_tile() const { return ((rows + unit - 1) / unit + tiles - 1) / tiles * unit; }

  // Where the tile's rows for k in [first_k, first_k + count), one block of K, start in data.
  int64_t offset(int64_t tile, int64_t first_k, int64_t count) const {
    return first_k * rows + first_row(tile) * count;
  }
  // The same in words of bf16. k_block is a multiple of 32.
  int64_t bf16_offset(int64_t tile, int64_t first_k, int64_t count) const {
    return first_k / 2 * rows + first_row(tile) * bf16_words(count);
  }
  // Where the tile's rows for the group that starts at first_k start in words of int8.
  int64_t int8_offset(int64_t tile, int64_t first_k) const {
    constexpr int64_t kWords = kHeaderWords + kQuantGroup / kWordBytes;
    return first_row(tile) * int8_row_words() + first_k / kQuantGroup * kWords * tile_rows(tile);
  }
  // The same of a tile that AMX multiplies: the bytes of all groups, in whole cache lines, and then
  // what precedes them in other tiles.
  int64_t int8_bytes_offset(int64_t tile, int64_t first_k) const {
    return first_row(tile) * int8_row_words() + first_k / kWordBytes * tile_rows(tile);
  }
  int64_t int8_header_offset(int64_t tile, int64_t first_k) const {
    const int64_t groups = (k + kQuantGroup - 1) / kQuantGroup;
    return int8_bytes_offset(tile, groups * kQuantGroup) +
           first_k / kQuantGroup * kHeaderWords * tile_rows(tile);
  }
  int64_t bf16_row_words() const { return bf16_words(k); }
  int64_t int8_row_words() const {  // the last group has room for a whole one
    return (kHeaderWords + kQuantGroup / kWordBytes) * ((k + kQuantGroup - 1) / kQuantGroup);
  }
};

}  // namespace neuronmm::cpu
