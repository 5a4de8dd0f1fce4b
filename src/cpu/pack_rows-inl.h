// Packs activations into tiles for one instruction set (see kernels.h, packed_rows.h). Highway
// includes this file once per target.

#if defined(NEURONMM_CPU_PACK_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_PACK_ROWS_INL_H_
#undef NEURONMM_CPU_PACK_ROWS_INL_H_
#else
#define NEURONMM_CPU_PACK_ROWS_INL_H_
#endif

#include <cmath>

#include "cpu/bf16_pairs-inl.h"
#include "cpu/int8_matmul-inl.h"
#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// Sets to[i * rows + r] = load(r, i) lane by lane from i = 0, for the `rows` rows of one quad. One
// vector of each row is stored.
template <class D, class Load>
HWY_INLINE void interleave(D d, int64_t rows, const Load& load, hn::TFromD<D>* to) {
  switch (rows) {
    case 4:
      return hn::StoreInterleaved4(load(0), load(1), load(2), load(3), d, to);
    case 3:
      return hn::StoreInterleaved3(load(0), load(1), load(2), d, to);
    case 2:
      return hn::StoreInterleaved2(load(0), load(1), d, to);
    default:
      hn::StoreU(load(0), d, to);
  }
}

// Packs `count` columns of one quad: to[k * n + r] = rows[r][first + k].
inline void pack_quad(const float* const* rows, int64_t n, int64_t first, int64_t count,
                      float* to) {
  const Floats d;
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    const auto load = [&](int r) { return hn::LoadU(d, rows[r] + first + k); };
    interleave(d, n, load, to + k * n);
  }
  for (; k < count; ++k) {
    for (int64_t r = 0; r < n; ++r) to[k * n + r] = rows[r][first + k];
  }
}

// A tile is packed one block of K after the other, in the order in which multiply_part reads it.
// For the part of each block that lies in `columns`, this calls pack(block's first k, its count,
// the part's first k, its count).
template <class Pack>
HWY_INLINE void for_each_block(const PackedRows& layout, const ColumnRange& columns,
                               const Pack& pack) {
  const int64_t end = columns.first + columns.count;
  for (int64_t first = columns.first; first < end;) {
    const int64_t block = first / layout.k_block * layout.k_block;
    const int64_t block_count = std::min(layout.k_block, layout.k - block);
    const int64_t count = std::min(end, block + block_count) - first;
    pack(block, block_count, first, count);
    first += count;
  }
}

// Packs rows in quads: word k of four rows lie together, where one load each broadcasts them.
inline void pack_tile(const PackedRows& layout, int64_t tile, const ColumnRange& columns,
                      const float* const* rows, float* packed) {
  const int64_t height = layout.tile_rows(tile);
  for_each_block(layout, columns, [&](int64_t block, int64_t depth, int64_t first, int64_t count) {
    float* const to = packed + layout.offset(tile, block, depth);
    for (int64_t r = 0; r < height; r += kQuad) {
      const int64_t n = std::min(kQuad, height - r);
      pack_quad(rows + r, n, first - columns.first, count, to + r * depth + (first - block) * n);
    }
  });
}

// Makes kLanes words of 2 · kLanes floats.
HWY_INLINE WordVector to_bf16(const float* x) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> words;
  Vector even, odd;
  hn::LoadInterleaved2(d, x, even, odd);
  const auto high = hn::And(round_to_bf16(odd), hn::Set(words, 0xFFFF0000u));
  return hn::BitCast(Words(), hn::Or(hn::ShiftRight<16>(round_to_bf16(even)), high));
}

// Packs `count` columns of one quad: to[i * n + r] = rows[r][first + {2 i, 2 i + 1}]. `words` is
// the number of words of each row, which are zeros beyond the last column.
inline void pack_bf16_quad(const float* const* rows, int64_t n, int64_t first, int64_t count,
                           int64_t words, int32_t* to) {
  const Words d;
  int64_t k = 0;
  for (; k + 2 * kLanes <= count; k += 2 * kLanes) {
    interleave(
        d, n, [&](int r) { return to_bf16(rows[r] + first + k); }, to + k / 2 * n);
  }
  std::fill(to + k / 2 * n, to + words * n, 0);
  if (k == count) return;
  HWY_ALIGN float rest[2 * kLanes] = {};
  HWY_ALIGN int32_t last[kLanes];
  for (int64_t r = 0; r < n; ++r) {
    std::copy_n(rows[r] + first + k, count - k, rest);
    hn::Store(to_bf16(rest), d, last);
    for (int64_t i = 0; i < (count - k + 1) / 2; ++i) to[(k / 2 + i) * n + r] = last[i];
  }
}

inline void pack_bf16_quads(const PackedRows& layout, int64_t tile, const ColumnRange& columns,
                            const float* const* rows, int32_t* packed) {
  const int64_t height = layout.tile_rows(tile);
  for_each_block(layout, columns, [&](int64_t block, int64_t depth, int64_t first, int64_t count) {
    int32_t* const to = packed + layout.bf16_offset(tile, block, depth);
    for (int64_t r = 0; r < height; r += kQuad) {
      const int64_t n = std::min(kQuad, height - r), words = (first - block) / 2;
      const bool last = first + count == block + depth;
      pack_bf16_quad(rows + r, n, first - columns.first, count,
                     last ? bf16_words(depth) - words : count / 2,
                     to + r * bf16_words(depth) + words * n);
    }
  });
}

// Packs bf16 rows for AMX, in steps of 32 columns, in which the rows lie one after the other.
// `columns` begins with a whole step.
template <class Bf16Pairs>
void pack_bf16_steps(const PackedRows& layout, int64_t tile, const ColumnRange& columns,
                     const float* const* rows, int32_t* packed) {
  constexpr int64_t kColumns = 2 * kBf16StepWords;
  const int64_t height = layout.tile_rows(tile);
  for_each_block(layout, columns, [&](int64_t block, int64_t depth, int64_t first, int64_t count) {
    int32_t* to = packed + layout.bf16_offset(tile, block, depth) + (first - block) / 2 * height;
    for (int64_t k = 0; k < count; k += kColumns) {
      for (int64_t r = 0; r < height; ++r, to += kBf16StepWords) {
        HWY_ALIGN float padded[kColumns] = {};
        const float* x = rows[r] + first - columns.first + k;
        if (count - k < kColumns) x = std::copy_n(x, count - k, padded) - (count - k);
        for (int64_t i = 0; i < kBf16StepWords; i += kLanes) {
          const Vector low = hn::LoadU(Floats(), x + 2 * i);
          const Vector high = hn::LoadU(Floats(), x + 2 * i + kLanes);
          hn::StoreU(Bf16Pairs::round(low, high), Words(), to + i);
        }
      }
    }
  });
}

template <class Product>
void pack_bf16_tile(const PackedRows& layout, int64_t tile, const ColumnRange& columns,
                    const float* const* rows, int32_t* packed) {
  if constexpr (Product::kRowsInSteps) {
    pack_bf16_steps<typename Product::Bf16Pairs>(layout, tile, columns, rows, packed);
  } else {
    pack_bf16_quads(layout, tile, columns, rows, packed);
  }
}

// Returns vector i of x[0, count), count <= kQuantGroup, with zeros beyond the end. kWhole means
// count = kQuantGroup.
template <bool kWhole>
HWY_INLINE Vector group_vector(const float* x, int64_t i, int64_t count) {
  const int64_t first = i * kLanes;
  if constexpr (kWhole) return hn::LoadU(Floats(), x + first);
  return first < count ? load_columns(x + first, count - first) : hn::Zero(Floats());
}

inline constexpr int64_t kGroupVectors = kQuantGroup / kLanes;
inline constexpr float kLargestByte = 127.0f;

// Returns max |x|, or NaN if a value is NaN or infinite.
template <bool kWhole>
HWY_INLINE float largest_of_group(const float* x, int64_t count) {
  const Floats d;
  Vector largest = hn::Zero(d), not_finite = hn::Zero(d);
  for (int64_t i = 0; i < kGroupVectors; ++i) {
    const Vector v = group_vector<kWhole>(x, i, count);
    largest = hn::Max(largest, hn::Abs(v));
    not_finite = hn::MulAdd(v, hn::Zero(d), not_finite);  // 0, or NaN
  }
  return hn::GetLane(hn::Add(hn::MaxOfLanes(d, largest), hn::SumOfLanes(d, not_finite)));
}

// Sets bytes[0, kQuantGroup) to x / max · kLargestByte rounded to nearest, so that the largest
// value of a group becomes 127.
template <bool kWhole>
HWY_INLINE void quantize_group(const float* x, int64_t count, float max, int8_t* bytes) {
  const Floats d;
  const hn::Rebind<int8_t, Floats> bytes_d;
  const Vector inverse = hn::Set(d, max > 0 ? kLargestByte / max : 0.0f);
  const Vector limit = hn::Set(d, kLargestByte);
  for (int64_t i = 0; i < kGroupVectors; ++i) {
    // A denormal maximum has an infinite inverse; clamping keeps the bytes in range.
    const Vector scaled = hn::Mul(group_vector<kWhole>(x, i, count), inverse);
    const WordVector nearest = hn::NearestInt(hn::Clamp(scaled, hn::Neg(limit), limit));
    hn::StoreU(hn::DemoteTo(bytes_d, nearest), bytes_d, bytes + i * kLanes);
  }
}

// Returns the sum of 16 bytes. Each byte + 128 is at most 255, so 16-bit fields hold their sums.
HWY_INLINE int32_t sum_of_16(const int8_t* bytes) {
  constexpr uint64_t kOffsets = 0x8080808080808080, kEven = 0x00FF00FF00FF00FF;
  uint64_t sums = 0;
  for (int64_t i = 0; i < 16; i += 8) {
    uint64_t eight = 0;
    hwy::CopyBytes<8>(bytes + i, &eight);
    eight ^= kOffsets;
    sums += (eight & kEven) + (eight >> 8 & kEven);
  }
  return static_cast<int32_t>(sums * 0x0001000100010001 >> 48) - 16 * 128;
}

// Computes a row's words of sums (see packed_rows.h), which are `stride` apart. Returns the sum of
// all bytes.
HWY_INLINE int32_t sum_group(const int8_t* bytes, int64_t stride, int32_t* words) {
  int32_t sum = 0;
  for (int64_t i = 0; i < kSumWords; ++i) {
    const int32_t low = sum_of_16(bytes + 32 * i), high = sum_of_16(bytes + 32 * i + 16);
    words[i * stride] = (low & 0xFFFF) | static_cast<int32_t>(static_cast<uint32_t>(high) << 16);
    sum += low + high;
  }
  return sum;
}

// Beyond the last column of a row the group is filled with zeros, as it is when the row is packed.
inline void quantization_rest(const float* x, int64_t count, float* rest) {
  HWY_ALIGN float group[kQuantGroup] = {};
  HWY_ALIGN int8_t bytes[kQuantGroup];
  for (int64_t first = 0; first < count; first += kQuantGroup) {
    const int64_t columns = std::min(kQuantGroup, count - first);
    std::copy_n(x + first, columns, group);
    std::fill(group + columns, group + kQuantGroup, 0.0f);
    const float largest = largest_of_group<true>(group, kQuantGroup);
    quantize_group<true>(group, kQuantGroup, largest, bytes);
    const float scale = largest / kLargestByte;
    for (int64_t i = 0; i < columns; ++i) rest[first + i] = group[i] - scale * bytes[i];
  }
}

// Computes scales, corrections, sums and bytes of one group of a tile. All maxima come first: each
// is a long chain of dependent instructions, and the chains of several rows overlap.
template <bool kWhole>
void quantize_rows(const float* const* rows, int64_t height, int64_t first, int64_t count,
                   bool only_scales, int32_t* group, int8_t* bytes) {
  float largest[kMaxTileRows];
  for (int64_t r = 0; r < height; ++r) {
    largest[r] = largest_of_group<kWhole>(rows[r] + first, count);
  }
  for (int64_t r = 0; r < height; ++r) {
    int8_t* const row = bytes + r * kQuantGroup;
    quantize_group<kWhole>(rows[r] + first, count, largest[r], row);
    const float scale = largest[r] / kLargestByte;
    hwy::CopyBytes<sizeof(float)>(&scale, group + r);
    if (only_scales) continue;
    // Weights are packed as w + 128, and the sum over k of (w + 128) x = sum of w x + 128 sum of x.
    group[height + r] = -128 * sum_group(row, height, group + 2 * height + r);
  }
}

// Packs the words of one group and one quad, from rows of kQuantGroup bytes, to to[k * n + r].
inline void interleave_words(const int32_t* from, int64_t n, int64_t words, int32_t* to) {
  constexpr int64_t kRowWords = kQuantGroup / kWordBytes;
  const Words d;
  int64_t k = 0;
  for (; k + kLanes <= words; k += kLanes) {
    interleave(
        d, n, [&](int r) { return hn::LoadU(d, from + r * kRowWords + k); }, to + k * n);
  }
  for (; k < words; ++k) {
    for (int64_t r = 0; r < n; ++r) to[k * n + r] = from[r * kRowWords + k];
  }
}

// Tiles that AMX multiplies are stored row by row, all others in quads (see packed_rows.h). Only a
// partial last group of K needs the checks for its end.
template <class Product>
void quantize_tile(const PackedRows& layout, int64_t tile, const ColumnRange& columns,
                   const float* const* rows, int32_t* packed) {
  constexpr int64_t kRowWords = kQuantGroup / kWordBytes;
  HWY_ALIGN int32_t bytes[kTileRows * kRowWords];
  const int64_t height = layout.tile_rows(tile);
  const bool rows_as_they_are = Product::takes_rows(height);
  const bool only_scales = Product::takes_pieces(layout);
  for (int64_t first = 0; first < columns.count; first += kQuantGroup) {
    const int64_t count = std::min(kQuantGroup, columns.count - first), k = columns.first + first;
    const int64_t words = int8_words(count);
    int32_t* const group = packed + (rows_as_they_are ? layout.int8_header_offset(tile, k)
                                                      : layout.int8_offset(tile, k));
    auto* const to = reinterpret_cast<int8_t*>(
        rows_as_they_are ? packed + layout.int8_bytes_offset(tile, k) : bytes);
    if (count == kQuantGroup) {
      quantize_rows<true>(rows, height, first, count, only_scales, group, to);
    } else {
      quantize_rows<false>(rows, height, first, count, only_scales, group, to);
    }
    if (rows_as_they_are) continue;
    for (int64_t r = 0; r < height; r += kQuad) {
      interleave_words(bytes + r * kRowWords, std::min(kQuad, height - r), words,
                       group + kHeaderWords * height + r * words);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_PACK_ROWS_INL_H_
