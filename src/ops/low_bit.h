#pragma once
// The storage of a rounded weight [rows, columns] with 8, 6 or 4 bits per value. This file defines
// what the bits mean. Checkpoints, rounding (ops/quantize.h) and the kernels of src/cpu follow it.
//
// Every format stands for bytes. Each row has a scale in bf16 for every kQuantGroup columns, and
// W[i, j] = scale · byte, with an integer byte in [-127, 127]. A code q gives its byte as follows.
//
//   8 bits: The code is the byte itself.
//   6 bits: The byte is q - 32. Codes q are in 1 ... 63.
//   4 bits: The byte is sc · q - floor(sc · zz / 2). Codes q are in 0 ... 15.
//
// In 4 bits, every `group` columns of a row (16 or 32) share a multiplier and a zero point. The
// multiplier sc is in 1 ... 16. The field zz, in 8 ... 23, is twice the zero point, which therefore
// is a multiple of a half.
//
// A kernel that multiplies bytes thus serves all formats. Products, corrections and activations do
// not depend on the bits that a weight has in memory. Scales add an eighth of a bit to every
// weight. Groups of 16 columns add half a bit, and groups of 32 columns a quarter.
//
// The layout of a row is the same in memory and in files:
//
//   8 bits: The row has one signed byte per column.
//   4 bits: The row has ceil(columns / 2) bytes, with the even column in the low half.
//   6 bits: The low 4 bits of all codes are stored as in 4 bits. The high 2 bits of all codes
//           follow in ceil(columns / 4) bytes, with the lowest column in the lowest bits.
//
// Bits beyond the last column are 0.

#include <cstdint>
#include <vector>

#include "base/float16.h"
#include "base/low_bit_format.h"

namespace neuronmm::ops {

using neuronmm::LowBitFormat;

// The multiplier (sc above) of a group of 4-bit codes and twice its zero point (zz). The stored
// byte has sc - 1 in its low half and zz - 8 in its high half.
struct GroupOf4Bits {
  int multiplier = 1;        // 1 ... 16
  int twice_zero_point = 8;  // 8 ... 23

  static GroupOf4Bits of(uint8_t stored) { return {(stored & 15) + 1, (stored >> 4) + 8}; }
  uint8_t stored() const {
    return static_cast<uint8_t>((multiplier - 1) | (twice_zero_point - 8) << 4);
  }
  int byte(int q) const { return multiplier * q - zero(); }
  int zero() const { return multiplier * twice_zero_point / 2; }
  // Returns whether every code q in 0 ... 15 gives a byte within ±127.
  bool fits() const { return zero() <= 127 && 15 * multiplier - zero() <= 127; }
};

// Returns eight stored fields of 4 bits as eight bytes. The first field is in the lowest bits.
constexpr uint64_t bytes_of_nibbles(uint32_t fields) {
  uint64_t x = fields;
  x = (x | x << 16) & 0x0000FFFF0000FFFF;
  x = (x | x << 8) & 0x00FF00FF00FF00FF;
  return (x | x << 4) & 0x0F0F0F0F0F0F0F0F;
}
// Returns eight stored fields of 2 bits as eight bytes. The first field is in the lowest bits.
constexpr uint64_t bytes_of_pairs(uint16_t fields) {
  uint64_t x = fields;
  x = (x | x << 24) & 0x000000FF000000FF;
  x = (x | x << 12) & 0x000F000F000F000F;
  return (x | x << 6) & 0x0303030303030303;
}

// Returns the number of bytes of a stored row, without its scales and groups.
int64_t stored_row_bytes(const LowBitFormat& format, int64_t columns);
// Returns the number of GroupOf4Bits of a row, which is 0 unless the format has 4 bits.
int64_t groups_of_row(const LowBitFormat& format, int64_t columns);

// Writes to q the codes of columns [first, first + count) of a stored row of 4 or 6 bits. `columns`
// is the width of the whole row. Codes have the form of Codes::q below.
void read_codes(int bits, const uint8_t* row, int64_t columns, int64_t first, int64_t count,
                uint8_t* q);
// Packs the codes of a row, in the form of Codes::q below, into stored_row_bytes bytes at `row`.
void store_codes(int bits, const uint8_t* q, int64_t columns, uint8_t* row);

// A rounded weight before it is packed: one byte per code in every format.
struct Codes {
  LowBitFormat format;
  int64_t rows = 0, columns = 0;
  std::vector<uint8_t> q;       // [rows, columns]; 8 bits: byte + 128, 6 bits: byte + 32
  std::vector<uint8_t> groups;  // [rows, ceil(columns / group)] GroupOf4Bits; only for 4 bits
  std::vector<bf16> scales;     // [rows, ceil(columns / kQuantGroup)]

  int byte(int64_t i, int64_t j) const;  // in [-127, 127]
  double value(int64_t i, int64_t j) const;
};

}  // namespace neuronmm::ops
