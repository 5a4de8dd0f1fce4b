// Activations into packed tiles for one instruction set (see kernels.h, packed_rows.h). Highway
// includes this file once per target.

#if defined(NEURONMM_CPU_PACK_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_PACK_ROWS_INL_H_
#undef NEURONMM_CPU_PACK_ROWS_INL_H_
#else
#define NEURONMM_CPU_PACK_ROWS_INL_H_
#endif

#include <cmath>

#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// to[i * rows + r] = load(r, i), lane by lane from i = 0, for the `rows` rows of one quad; i is a
// multiple of a vector's lanes, and `lanes` of them are stored.
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

// One block of `count` columns of one quad: to[k * n + r] = scale · rows[r][first_k + k].
inline void pack_quad(const float* const* rows, int64_t n, int64_t first_k, int64_t count,
                      float scale, float* to) {
  const Floats d;
  const Vector factor = hn::Set(d, scale);
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    const auto load = [&](int r) { return hn::Mul(factor, hn::LoadU(d, rows[r] + first_k + k)); };
    interleave(d, n, load, to + k * n);
  }
  for (; k < count; ++k) {
    for (int64_t r = 0; r < n; ++r) to[k * n + r] = scale * rows[r][first_k + k];
  }
}

inline void pack_tile(const PackedRows& layout, int64_t tile, float scale, const float* const* rows,
                      float* packed) {
  const int64_t height = layout.tile_rows(tile);
  for (int64_t first_k = 0; first_k < layout.k; first_k += layout.k_block) {
    const int64_t count = std::min(layout.k_block, layout.k - first_k);
    float* const block = packed + layout.offset(tile, first_k, count);
    for (int64_t r = 0; r < height; r += kQuad) {
      pack_quad(rows + r, std::min(kQuad, height - r), first_k, count, scale, block + r * count);
    }
  }
}

struct QuantizedGroup {
  float scale;
  int32_t correction;
};

// bytes[0, kQuantGroup) <- x[0, count) / scale rounded to nearest, then zeros.
inline QuantizedGroup quantize_group(const float* HWY_RESTRICT x, int64_t count,
                                     int8_t* HWY_RESTRICT bytes) {
  constexpr float kLargest = 127.0f;
  const Floats d;
  const Words words;
  const hn::Rebind<int8_t, Floats> bytes_d;
  Vector largest = hn::Zero(d), not_finite = hn::Zero(d);
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vector v = load_columns(x + i, count - i);
    largest = hn::Max(largest, hn::Abs(v));
    not_finite = hn::MulAdd(v, hn::Zero(d), not_finite);  // 0, or NaN
  }
  const float max = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float poison = hn::GetLane(hn::SumOfLanes(d, not_finite));
  const Vector inverse = hn::Set(d, max > 0 ? kLargest / max : 0.0f);
  WordVector sum = hn::Zero(words);
  for (int64_t i = 0; i < count; i += kLanes) {
    // A denormal maximum has an infinite inverse; clamping keeps its bytes in range.
    const Vector scaled = hn::Mul(load_columns(x + i, count - i), inverse);
    const Vector clamped = hn::Clamp(scaled, hn::Set(d, -kLargest), hn::Set(d, kLargest));
    const WordVector nearest = hn::NearestInt(clamped);
    sum = hn::Add(sum, nearest);
    hn::StoreU(hn::DemoteTo(bytes_d, nearest), bytes_d, bytes + i);
  }
  for (int64_t i = (count + kLanes - 1) / kLanes * kLanes; i < kQuantGroup; i += kLanes) {
    hn::StoreU(hn::Zero(bytes_d), bytes_d, bytes + i);
  }
  return {max / kLargest + poison, -128 * hn::GetLane(hn::SumOfLanes(words, sum))};
}

// The words of one group and one quad, from rows of kQuantGroup bytes: to[k * n + r].
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

inline void quantize_tile(const PackedRows& layout, int64_t tile, const float* const* rows,
                          int32_t* packed) {
  constexpr int64_t kRowWords = kQuantGroup / kWordBytes;
  HWY_ALIGN int32_t bytes[kTileRows * kRowWords];
  const int64_t height = layout.tile_rows(tile);
  for (int64_t first_k = 0; first_k < layout.k; first_k += kQuantGroup) {
    const int64_t count = std::min(kQuantGroup, layout.k - first_k);
    const int64_t words = (count + kWordBytes - 1) / kWordBytes;
    int32_t* const group = packed + layout.quantized_offset(tile, first_k);
    for (int64_t r = 0; r < height; ++r) {
      const QuantizedGroup row = quantize_group(rows[r] + first_k, count,
                                                reinterpret_cast<int8_t*>(bytes + r * kRowWords));
      hwy::CopyBytes<sizeof(float)>(&row.scale, group + r);
      group[height + r] = row.correction;
    }
    for (int64_t r = 0; r < height; r += kQuad) {
      interleave_words(bytes + r * kRowWords, std::min(kQuad, height - r), words,
                       group + 2 * height + r * words);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_PACK_ROWS_INL_H_
