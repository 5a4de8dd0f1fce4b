#pragma once
// How a rounded weight [rows, columns] is stored: 8, 6 or 4 bits per value, in a way that all
// become the same bytes when they are read. Each row has a scale in bf16 for every kQuantGroup
// columns, and W[i, j] = scale · byte with an integer byte in [-127, 127]:
//
//   8 bits: the byte itself.
//   6 bits: byte = q - 32, q in 1 ... 63.
//   4 bits: byte = sc · q - floor(sc · zz / 2), q in 0 ... 15; every `group` (16 or 32) columns
//           of a row have a multiplier sc in 1 ... 16 and twice a zero point zz in 8 ... 23 (4 to
//           11.5 in steps of a half).
//
// So a kernel that multiplies bytes multiplies all of them: products, corrections and activations
// do not know how wide a weight was in memory. Per weight 8.125, 6.125, and 4.375 (group 32) or
// 4.625 (group 16) bits.
//
// In memory and in files a row of 8 bits is its signed bytes; one of 4 bits ceil(columns / 2)
// bytes, the even column in the low half; one of 6 bits the low 4 bits of all codes in the same
// way, then their high 2 bits in ceil(columns / 4) bytes, the lowest column in the lowest bits.
// What lies beyond the last column is 0.

#include <cstdint>
#include <vector>

#include "base/float16.h"
#include "base/low_bit_format.h"

namespace neuronmm::ops {

using neuronmm::LowBitFormat;

// The multiplier and zero point of a group of 4 bits, as one byte: sc - 1 below, zz - 8 above.
struct GroupOf4Bits {
  int sc = 1;  // 1 ... 16
  int zz = 8;  // 8 ... 23

  static GroupOf4Bits of(uint8_t stored) { return {(stored & 15) + 1, (stored >> 4) + 8}; }
  uint8_t stored() const { return static_cast<uint8_t>((sc - 1) | (zz - 8) << 4); }
  int byte(int q) const { return sc * q - zero(); }
  int zero() const { return sc * zz / 2; }
  // Whether q = 0 ... 15 all give bytes within ±127.
  bool fits() const { return zero() <= 127 && 15 * sc - zero() <= 127; }
};

// Eight stored fields of 4 or 2 bits, the first in the lowest bits, as eight bytes.
constexpr uint64_t bytes_of_nibbles(uint32_t fields) {
  uint64_t x = fields;
  x = (x | x << 16) & 0x0000FFFF0000FFFF;
  x = (x | x << 8) & 0x00FF00FF00FF00FF;
  return (x | x << 4) & 0x0F0F0F0F0F0F0F0F;
}
constexpr uint64_t bytes_of_pairs(uint16_t fields) {
  uint64_t x = fields;
  x = (x | x << 24) & 0x000000FF000000FF;
  x = (x | x << 12) & 0x000F000F000F000F;
  return (x | x << 6) & 0x0303030303030303;
}

// Bytes of a stored row, without scales and groups.
int64_t stored_row_bytes(const LowBitFormat& format, int64_t columns);
// GroupOf4Bits of a row; 0 unless the format has 4 bits.
int64_t groups_of_row(const LowBitFormat& format, int64_t columns);

// The codes q of columns [first, first + count) of a stored row, as in Codes below; of 4 or 6 bits.
void read_codes(int bits, const uint8_t* row, int64_t columns, int64_t first, int64_t count,
                uint8_t* q);
// A row's codes in stored order, stored_row_bytes of them.
void store_codes(int bits, const uint8_t* q, int64_t columns, uint8_t* row);

// A rounded weight with one byte per value, however few bits are stored.
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
