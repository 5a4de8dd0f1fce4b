// Products with coded weights for one instruction set (see base/coded_values.h, packed_matrix.h).
// Highway includes this file once per target.
//
// A block of K of some panels is expanded to fp32 in memory of the thread, which stays in cache,
// and then multiplied as fp32 weights are. Values are those of CodedValues::to_floats, bit for bit.

#if defined(NEURONMM_CPU_CODED_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_CODED_MATMUL_INL_H_
#undef NEURONMM_CPU_CODED_MATMUL_INL_H_
#else
#define NEURONMM_CPU_CODED_MATMUL_INL_H_
#endif

#include "cpu/buffer.h"
#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// Widens the codes of one vector of columns to fp32. The codes of a row of 4 bits are in one half
// of each byte.
template <CodeKind kKind>
HWY_INLINE Vector widen_codes(const uint8_t* codes, bool high) {
  const hn::Rebind<uint8_t, Floats> bytes;
  const hn::Rebind<int32_t, Floats> ints;
  auto code = hn::LoadU(bytes, codes);
  if constexpr (kKind == CodeKind::kInt4) {
    const auto mask = hn::Set(bytes, uint8_t{15});
    const auto halves = hn::PromoteTo(ints, code);
    const auto wanted = high ? hn::ShiftRight<4>(halves) : halves;
    return hn::ConvertTo(Floats(), hn::And(wanted, hn::PromoteTo(ints, mask)));
  } else if constexpr (kKind == CodeKind::kInt8) {
    return hn::ConvertTo(Floats(), hn::PromoteTo(ints, code));
  } else {
    // The exponent and the fraction move to the place that fp32 has for them, and 120 is added to
    // the exponent, because the biases are 7 and 127. An exponent of 0 has no hidden bit: the
    // number is then 2^-6 · fraction / 8, and the move gave 2^-7 · (1 + fraction / 8).
    const hn::Rebind<uint32_t, Floats> words;
    const auto word = hn::PromoteTo(words, code);
    const auto magnitude = hn::And(word, hn::Set(words, 0x7Fu));
    const auto moved =
        hn::BitCast(Floats(), hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(words, 120u << 23)));
    const auto small = hn::Sub(hn::Add(moved, moved), hn::Set(Floats(), 0x1p-6f));
    const auto is_small = hn::RebindMask(Floats(), hn::Lt(magnitude, hn::Set(words, 8u)));
    const auto is_nan = hn::RebindMask(Floats(), hn::Eq(magnitude, hn::Set(words, 0x7Fu)));
    const auto value = hn::IfThenElse(is_small, small, moved);
    const auto sign = hn::ShiftLeft<24>(hn::And(word, hn::Set(words, 0x80u)));
    return hn::Or(hn::IfThenElse(is_nan, hn::NaN(Floats()), value), hn::BitCast(Floats(), sign));
  }
}

// Expands rows [first, end) of a panel, which are of one group, to fp32.
template <CodeKind kKind>
HWY_INLINE void expand_rows(const uint8_t* codes, int64_t first, int64_t end, const float* scales,
                            const float* zeros, float* to) {
  Vector scale[kPanelVectors], zero[kPanelVectors];
  for (int v = 0; v < kPanelVectors; ++v) {
    scale[v] = hn::LoadU(Floats(), scales + v * kLanes);
    zero[v] = hn::LoadU(Floats(), zeros + v * kLanes);
  }
  for (int64_t k = first; k < end; ++k, to += kPanel) {
    constexpr bool kHalves = kKind == CodeKind::kInt4;
    const uint8_t* const line = codes + (kHalves ? k / 2 : k) * kPanel;
    for (int v = 0; v < kPanelVectors; ++v) {
      Vector code = widen_codes<kKind>(line + v * kLanes, kHalves && k % 2 == 1);
      if constexpr (kKind != CodeKind::kFloat8) code = hn::Sub(code, zero[v]);
      hn::StoreU(hn::Mul(scale[v], code), Floats(), to + v * kLanes);
    }
  }
}

// Expands rows [first_k, first_k + count) of a panel.
template <CodeKind kKind>
void expand_coded(const PackedMatrix& w, int64_t panel, int64_t first_k, int64_t count, float* to) {
  const uint32_t* const words = w.panel(panel);
  const auto* const scales = reinterpret_cast<const float*>(words);
  const float* const zeros = scales + w.coded_groups() * kPanel;
  const auto* const codes = reinterpret_cast<const uint8_t*>(words + w.coded_words_before(0));
  const auto group = w.group_of_row();
  for (int64_t k = first_k, last = first_k + count; k < last;) {
    const int32_t of_k = group[static_cast<size_t>(k)];
    int64_t end = k + 1;
    while (end < last && group[static_cast<size_t>(end)] == of_k) ++end;
    expand_rows<kKind>(codes, k, end, scales + of_k * kPanel, zeros + of_k * kPanel,
                       to + (k - first_k) * kPanel);
    k = end;
  }
}

struct CodedProduct : FloatProduct<Fp32Dot> {
  static Panels block(const PackedMatrix& w, const ProductPart& part, int64_t first_k,
                      int64_t count) {
    thread_local Buffer<float> expanded;
    const int64_t panel_words = count * kPanel;
    float* const to = expanded.reserve(part.panels * panel_words);
    for (int64_t i = 0; i < part.panels; ++i) {
      expand(w, part.first_panel + i, first_k, count, to + i * panel_words);
    }
    return {reinterpret_cast<const uint32_t*>(to), panel_words, part.panels};
  }

 private:
  static void expand(const PackedMatrix& w, int64_t panel, int64_t first_k, int64_t count,
                     float* to) {
    switch (w.code_kind()) {
      case CodeKind::kInt4:
        return expand_coded<CodeKind::kInt4>(w, panel, first_k, count, to);
      case CodeKind::kInt8:
        return expand_coded<CodeKind::kInt8>(w, panel, first_k, count, to);
      case CodeKind::kFloat8:
        return expand_coded<CodeKind::kFloat8>(w, panel, first_k, count, to);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_CODED_MATMUL_INL_H_
