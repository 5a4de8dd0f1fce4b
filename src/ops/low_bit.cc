#include "ops/low_bit.h"

#include <algorithm>
#include <cstring>

#include "ops/weights.h"

namespace neuronmm::ops {
namespace {

int64_t bytes_of_halves(int64_t columns) { return (columns + 1) / 2; }
int64_t bytes_of_quarters(int64_t columns) { return (columns + 3) / 4; }

uint8_t field(const uint8_t* stored, int bits, int64_t j) {
  const int64_t per_byte = 8 / bits;
  return static_cast<uint8_t>(stored[j / per_byte] >> bits * (j % per_byte) & ((1 << bits) - 1));
}

}  // namespace

int64_t stored_row_bytes(const LowBitFormat& format, int64_t columns) {
  if (format.bits == 8) return columns;
  const int64_t low = bytes_of_halves(columns);
  return format.bits == 6 ? low + bytes_of_quarters(columns) : low;
}

int64_t groups_of_row(const LowBitFormat& format, int64_t columns) {
  return format.bits == 4 ? (columns + format.group - 1) / format.group : 0;
}

void read_codes(int bits, const uint8_t* row, int64_t columns, int64_t first, int64_t count,
                uint8_t* q) {
  const uint8_t* const high = row + bytes_of_halves(columns);
  int64_t i = 0;
  if (first % 8 == 0) {
    for (; i + 8 <= count; i += 8) {
      uint32_t nibbles;
      std::memcpy(&nibbles, row + (first + i) / 2, sizeof nibbles);
      uint64_t codes = bytes_of_nibbles(nibbles);
      if (bits == 6) {
        uint16_t pairs;
        std::memcpy(&pairs, high + (first + i) / 4, sizeof pairs);
        codes |= bytes_of_pairs(pairs) << 4;
      }
      std::memcpy(q + i, &codes, sizeof codes);
    }
  }
  for (; i < count; ++i) {
    q[i] = field(row, 4, first + i);
    if (bits == 6) q[i] = static_cast<uint8_t>(q[i] | field(high, 2, first + i) << 4);
  }
}

void store_codes(int bits, const uint8_t* q, int64_t columns, uint8_t* row) {
  if (bits == 8) {  // stored bytes are signed, codes are not
    std::transform(q, q + columns, row, [](uint8_t code) { return code ^ uint8_t { 128 }; });
    return;
  }
  const auto code = [&](int64_t j) { return j < columns ? q[j] : uint8_t{0}; };
  for (int64_t i = 0; i < bytes_of_halves(columns); ++i) {
    row[i] = static_cast<uint8_t>((code(2 * i) & 15) | (code(2 * i + 1) & 15) << 4);
  }
  if (bits == 4) return;
  uint8_t* const high = row + bytes_of_halves(columns);
  for (int64_t i = 0; i < bytes_of_quarters(columns); ++i) {
    const int64_t j = 4 * i;
    high[i] = static_cast<uint8_t>(code(j) >> 4 | code(j + 1) >> 4 << 2 | code(j + 2) >> 4 << 4 |
                                   code(j + 3) >> 4 << 6);
  }
}

int Codes::byte(int64_t i, int64_t j) const {
  const int stored = q[static_cast<size_t>(i * columns + j)];
  if (format.bits == 8) return stored - 128;
  if (format.bits == 6) return stored - 32;
  const int64_t per_row = groups_of_row(format, columns);
  return GroupOf4Bits::of(groups[static_cast<size_t>(i * per_row + j / format.group)]).byte(stored);
}

double Codes::value(int64_t i, int64_t j) const {
  const int64_t per_row = (columns + kQuantGroup - 1) / kQuantGroup;
  const bf16 scale = scales[static_cast<size_t>(i * per_row + j / kQuantGroup)];
  return static_cast<double>(scale.to_float()) * byte(i, j);
}

}  // namespace neuronmm::ops
