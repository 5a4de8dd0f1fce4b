#pragma once
// Activations in the order in which the matmul kernels read them. The rows are divided into tiles
// with at most as many rows as fit into registers (`Kernels`). Tiles are divided into quads of 4
// rows, of which the last may be smaller. RowPacker (matmul.h) packs rows.
//
//   fp32, for fp32 weights, and for bf16 ones if the CPU has no dot products of bf16:
//         Within a block of k_block columns, each quad lies as [k][rows of the quad]. A single row
//         is its own packing.
//   bf16 (rounded to nearest even), for bf16 weights if the CPU has dot products of bf16:
//         The same with words [k / 2][rows of the quad]. A word holds 2 neighbouring columns, the
//         lower in its low half. Zeros follow the last column up to a multiple of 32. If AMX
//         multiplies (`Kernels::amx`), a tile lies as [k / 32][row][16 words] instead.
//   int8, for rounded weights:
//         An activation is scale · byte. The tiles lie one after the other. For each group of
//         kQuantGroup columns a tile has a scale (fp32) per row, a correction (int32) per row, and
//         four words of sums per row. Then follow quads of words [k / 4][rows of the quad]. A word
//         holds the bytes of 4 neighbouring columns, with zeros after the last up to a multiple of
//         32. correction = -128 · (sum of the row's bytes in the group), see packed_matrix.h. Codes
//         that are multiplied directly (code_matmul-inl.h) need the sums. Word i of them holds the
//         sum over the first 16 of the columns from 32 i on in its low half, and over the next 16
//         in its high half. If AMX multiplies, a tile of more than half of `Kernels::tile_rows`
//         rows holds the bytes of all its groups, each as rows of 128, and then the scales,
//         corrections and sums of all groups. With kTilesOfPieces tiles or more, only the scales
//         are written, because weights are then multiplied as signed bytes (amx_bytes-inl.h).

#include <algorithm>
#include <cstdint>

#include "ops/weights.h"

namespace neuronmm::cpu {

inline constexpr int64_t kQuad = 4;
inline constexpr int64_t kQuantGroup = ops::kQuantGroup;
inline constexpr int64_t kWordBytes = 4;
// The header before the bytes of a group, in words per row: scale, correction, sums.
inline constexpr int64_t kSumWords = 4;
inline constexpr int64_t kHeaderWords = 2 + kSumWords;
// Words after the last row that may be read, so that all words can be read as vectors.
inline constexpr int64_t kRowPadding = 16;
// The padding if AMX multiplies: a low tile may be read as if it were as high as the highest one,
// which has at most 32 rows of 128 bytes.
inline constexpr int64_t kTilePadding = 32 * 32;

// Returns the number of words for `columns` columns of bytes, rounded up to pieces of 32 columns.
inline constexpr int64_t kPieceWords = 32 / kWordBytes;
constexpr int64_t int8_words(int64_t columns) {
  return (columns + kPieceWords * kWordBytes - 1) / (kPieceWords * kWordBytes) * kPieceWords;
}

// Returns the number of words for `columns` columns of bf16, rounded up to steps of 32 columns.
inline constexpr int64_t kBf16StepWords = 16;
constexpr int64_t bf16_words(int64_t columns) {
  return (columns + 2 * kBf16StepWords - 1) / (2 * kBf16StepWords) * kBf16StepWords;
}

// With AMX, from this many tiles on, rows pass over pieces of weights (amx_pieces-inl.h). With
// fewer tiles, copying a piece costs more than it gains.
inline constexpr int64_t kTilesOfPieces = 3;

struct ColumnRange {
  int64_t first = 0, count = 0;
};

// The rows of a tile.
struct TileOfRows {
  int64_t first, count;
};

// Packed rows and their layout.
struct PackedRows {
  const float* data = nullptr;     // for fp32
  const int32_t* words = nullptr;  // for bf16 or int8
  int64_t rows = 0;
  int64_t k = 0;
  int64_t k_block = 0;  // blocks of K lie one after the other; the last may be shorter
  int64_t tiles = 0;
  int64_t unit = 1;  // heights of tiles are multiples of this, except the last tile's

  // Tiles have nearly equal heights: 13 rows become two tiles of 6 and 7 rows.
  int64_t first_row(int64_t tile) const {
    return std::min(rows, (rows + unit - 1) / unit * tile / tiles * unit);
  }
  int64_t tile_rows(int64_t tile) const { return first_row(tile + 1) - first_row(tile); }
  TileOfRows tile(int64_t tile) const { return {first_row(tile), tile_rows(tile)}; }
  int64_t highest_tile() const { return ((rows + unit - 1) / unit + tiles - 1) / tiles * unit; }

  // Returns where the tile's rows for k in [first_k, first_k + count), which is one block of K,
  // start in `data`.
  int64_t offset(int64_t tile, int64_t first_k, int64_t count) const {
    return first_k * rows + first_row(tile) * count;
  }
  // Returns the same in `words` for bf16. k_block is a multiple of 32.
  int64_t bf16_offset(int64_t tile, int64_t first_k, int64_t count) const {
    return bf16_offset(this->tile(tile), first_k, count);
  }
  int64_t bf16_offset(const TileOfRows& tile, int64_t first_k, int64_t count) const {
    return first_k / 2 * rows + tile.first * bf16_words(count);
  }
  // Returns where the tile's rows for the group that starts at first_k start in `words` for int8.
  int64_t int8_offset(int64_t tile, int64_t first_k) const {
    constexpr int64_t kWords = kHeaderWords + kQuantGroup / kWordBytes;
    return first_row(tile) * int8_row_words() + first_k / kQuantGroup * kWords * tile_rows(tile);
  }
  // A tile that AMX multiplies has the bytes of all groups first, in whole cache lines, and then
  // the headers of all groups. These functions return where those of the group that starts at
  // first_k are.
  int64_t int8_bytes_offset(int64_t tile, int64_t first_k) const {
    return int8_bytes_offset(this->tile(tile), first_k);
  }
  int64_t int8_bytes_offset(const TileOfRows& tile, int64_t first_k) const {
    return tile.first * int8_row_words() + first_k / kWordBytes * tile.count;
  }
  int64_t int8_header_offset(int64_t tile, int64_t first_k) const {
    return int8_header_offset(this->tile(tile), first_k);
  }
  int64_t int8_header_offset(const TileOfRows& tile, int64_t first_k) const {
    const int64_t groups = (k + kQuantGroup - 1) / kQuantGroup;
    return int8_bytes_offset(tile, groups * kQuantGroup) +
           first_k / kQuantGroup * kHeaderWords * tile.count;
  }
  int64_t bf16_row_words() const { return bf16_words(k); }
  int64_t int8_row_words() const {  // every group takes the space of a whole one
    return (kHeaderWords + kQuantGroup / kWordBytes) * ((k + kQuantGroup - 1) / kQuantGroup);
  }
};

}  // namespace neuronmm::cpu
