#pragma once
// How a rounded weight [rows, columns] is stored: 8, 6 or 4 bits per value, in a way that all
// become the same bytes when they are read. Each row has a scale in bf16 for every kQuantGroup
// columns, and W[i, j] = scale · byte with an integer byte in [-127, 127]:
//
//   8 bits: the byte itself.
//   6 bits: byte = q - 32, q in 1 ... 63.
//   4 bits: byte = sc · q - floor(sc · zz / 2), q in 0 ... 15; every `group` (16 or 32) columns of
//   a
//           row have a multiplier sc in 1 ... 16 and twice a zero point zz in 8 ... 23 (4 to 11.5
//           in steps of a half).
//
// So a kernel that multiplies bytes multiplies all of them: products, corrections and activations
// do not know how wide a weight was in memory. Per weight 8.125, 6.125, and 4.375 (group 32) or
// 4.625 (group 16) bits.

#include <cstdint>
#include <vector>

#include "base/float16.h"
#include "base/result.h"

namespace neuronmm::ops {

struct LowBitFormat {
  int bits = 8;  // 8, 6, 4
  int64_t group =
      128;  // columns that share a multiplier and a zero point, 4 bits: 16, 32; else 128

  bool operator==(const LowBitFormat&) const = default;
};

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
