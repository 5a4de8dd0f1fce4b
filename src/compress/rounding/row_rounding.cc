#include "compress/rounding/row_rounding.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/rounding/row_rounding.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "compress/rounding/row_rounding-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::compress {
namespace HWY_NAMESPACE {

RoundedRows round_tile(const RoundingGram& gram, const std::vector<float>& group_roots,
                       ops::LowBitFormat format, std::vector<float> weight,
                       const RoundingSettings& settings) {
  RowRounding rows(gram, group_roots, format, std::move(weight));
  rows.round_in_order();
  for (int i = 0; i < settings.descents; ++i) rows.sweep(false);
  for (int i = 0; i < settings.refits; ++i) rows.sweep(true);
  return rows.take();
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::compress {

HWY_EXPORT(round_tile);

RoundedRows round_rows(const RoundingGram& gram, const std::vector<float>& group_roots,
                       ops::LowBitFormat format, std::vector<float> weight,
                       const RoundingSettings& settings) {
  return HWY_DYNAMIC_DISPATCH(round_tile)(gram, group_roots, format, std::move(weight), settings);
}

}  // namespace neuronmm::compress
#endif
