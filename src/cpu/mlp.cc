#include "cpu/mlp.h"

#include <vector>

namespace neuronmm::cpu {
namespace {

// For a block of rows: X is packed once; the strips X·Ug and X·Uu are one parallel loop; gate, up,
// silu(gate) * up and its packing are a second; down reads the hidden rows while they are in cache.
class CpuMlp : public ops::Mlp {
 public:
  CpuMlp(const Kernels& kernels, std::shared_ptr<LayerScratch> scratch,
         const ops::MlpWeight& weight)
      : kernels_(kernels),
        scratch_(std::move(scratch)),
        gate_(weight.gate),
        up_(weight.up),
        down_(weight.down) {
    NMM_CHECK(gate_.in_features() == up_.in_features() &&
              gate_.out_features() == up_.out_features() &&
              up_.out_features() == down_.in_features());
  }

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    NMM_CHECK(x.rows == y.rows && x.columns == up_.in_features() &&
              y.columns == down_.out_features());
    for_each_row_block(x.rows, [&](int64_t first, int64_t rows) {
      const PackedRows hidden = apply_gate_up(x.row_range(first, rows));
      apply_linear(kernels_, down_, hidden, *scratch_, y.row_range(first, rows));
    });
  }

 private:
  PackedRows apply_gate_up(ConstMatrixView x) const {
    LayerScratch& s = *scratch_;
    const PackedRows rows = pack_rows(kernels_, x, gate_.first_type(), s.rows);
    const PackedRows rows_of_up = up_.first_type() == gate_.first_type()
                                      ? rows
                                      : pack_rows(kernels_, x, up_.first_type(), s.second_rows);
    // Strips of width 0 when a matrix is dense: nothing is reserved and nothing is written.
    const MutableMatrixView gate_strip(s.strip.reserve(x.rows * gate_.rank()), x.rows,
                                       gate_.rank());
    const MutableMatrixView up_strip(s.second_strip.reserve(x.rows * up_.rank()), x.rows,
                                     up_.rank());
    Product strips[2];
    size_t count = 0;
    if (gate_.low_rank()) strips[count++] = gate_.strip(rows, gate_strip);
    if (up_.low_rank()) strips[count++] = up_.strip(rows_of_up, up_strip);
    multiply(kernels_, std::span(strips, count));
    const PackedRows gate_rows =
        gate_.low_rank() ? pack_rows(kernels_, gate_strip, gate_.last_type(), s.strip_rows) : rows;
    const PackedRows up_rows =
        up_.low_rank() ? pack_rows(kernels_, up_strip, up_.last_type(), s.second_strip_rows)
                       : rows_of_up;

    // The packed hidden rows are the only trace of gate and up: neither is ever a whole matrix.
    const RowPacker hidden(kernels_, x.rows, up_.out_features(), down_.first_type(), s.hidden_rows);
    multiply_gate_up(kernels_, gate_.output(gate_rows, {}), up_.output(up_rows, {}), s.gate_up,
                     hidden);
    return hidden.rows();
  }

  const Kernels& kernels_;
  std::shared_ptr<LayerScratch> scratch_;
  PackedLinear gate_, up_, down_;
};

}  // namespace

std::unique_ptr<ops::Mlp> make_mlp(const Kernels& kernels, std::shared_ptr<LayerScratch> scratch,
                                   const ops::MlpWeight& weight) {
  return std::make_unique<CpuMlp>(kernels, std::move(scratch), weight);
}

}  // namespace neuronmm::cpu
