#include "compress/block_rounding/block_rows.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/block_rounding/block_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "compress/block_rounding/block_rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::compress {
namespace HWY_NAMESPACE {

RoundedBlockRows round_block_tile(const RoundingGram& gram, const std::vector<float>& group_roots,
                                  BlockGrids grids, std::vector<float> weight,
                                  const RoundingSettings& settings) {
  BlockRows rows(gram, group_roots, std::move(grids), std::move(weight));
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

HWY_EXPORT(round_block_tile);

RoundedBlockRows round_block_rows(const RoundingGram& gram, const std::vector<float>& group_roots,
                                  BlockGrids grids, std::vector<float> weight,
                                  const RoundingSettings& settings) {
  return HWY_DYNAMIC_DISPATCH(round_block_tile)(gram, group_roots, std::move(grids),
                                                std::move(weight), settings);
}

}  // namespace neuronmm::compress
#endif
