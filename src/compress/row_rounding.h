#pragma once
// kLanes rows of a weight on their way to codes. J is what rounding costs: the sum over rows of
// e·H·eᵀ, e = w - value, H the damped Gram matrix of the layer's input.
//
//   round_in_order   grids by the diagonal of H, then column after column the nearest code of what
//                    is wanted once all earlier errors are known (GPTQ, which is Babai's nearest
//                    plane: with H = U·Uᵀ, U upper triangular, J is the squared norm of e·U, and a
//                    column of it only holds errors of columns that came before)
//   sweep            blocks of kQuantGroup columns, each once more given all others: optionally
//                    other groups and another scale, then codes by coordinate descent. J falls.

#include <cstdint>
#include <span>
#include <vector>

#include "compress/group_fit.h"
#include "compress/rounding_gram.h"

namespace neuronmm::compress {

class RowRounding {
 public:
  // weight [columns, kLanes]; group_roots those of `gram` for 4 bits. Both must outlive it.
  RowRounding(const RoundingGram& gram, const std::vector<float>& group_roots,
              ops::LowBitFormat format, std::vector<float> weight);

  void round_in_order();
  void sweep(bool choose_grids);

  const RowGrids& grids() const { return grids_; }
  int code(int64_t column, int64_t lane) const {
    return code_[static_cast<size_t>(column * kLanes + lane)];
  }

 private:
  void place(int64_t column, const float* target);
  void set_error(int64_t column);
  void choose_groups(int64_t block, float* gradient);
  void choose_group(int64_t group, const float* gradient);
  LaneGrid trial_grid(int64_t group, std::span<const ops::GroupOf4Bits> present,
                      size_t choice) const;
  void fit_scale(int64_t block, float* gradient);
  void descend(int64_t block, float* gradient);
  void spread_change(int64_t first, int64_t last, int64_t column, const float* change,
                     float* gradient) const;

  const RoundingGram& gram_;
  const std::vector<float>& group_roots_;
  RowGrids grids_;
  std::vector<float> weight_, error_;  // [columns, kLanes]
  std::vector<uint8_t> code_;          // [columns, kLanes]
};

}  // namespace neuronmm::compress
