#include "cpu/mlp.h"

#include <vector>

namespace neuronmm::cpu {
namespace {

// A block of rows takes these steps. X is packed once. The strips of gate and up are one parallel
// loop. Gate, up, gated(gate, up) and its packing are a second one. Down reads the hidden rows
// while they are in cache. Pivots that gate and up share are a product before all of these.
class CpuMlp : public ops::Mlp {
 public:
  CpuMlp(const Kernels& kernels, std::shared_ptr<LayerScratch> scratch,
         const ops::MlpWeight& weight, ForeignWeights foreign)
      : kernels_(kernels),
        scratch_(std::move(scratch)),
        in_(weight.in),
        gate_(weight.gate, foreign),
        up_(weight.up, foreign),
        down_(weight.down, foreign),
        gating_(kernels.gating(weight.activation, weight.clamp)) {
    NMM_CHECK(gate_.in_features() == up_.in_features() &&
              gate_.out_features() == up_.out_features() &&
              up_.out_features() == down_.in_features() && down_.in().empty());
    NMM_CHECK(in_.empty() || in_.rank() == gate_.in_features());
  }

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    const int64_t width = in_.empty() ? up_.in_features() : in_.features();
    NMM_CHECK(x.rows == y.rows && x.columns == width && y.columns == down_.out_features());
    for_each_row_block(x.rows, [&](int64_t first, int64_t rows) {
      const PackedRows hidden = apply_gate_up(narrow_input(x.row_range(first, rows)));
      apply_linear(kernels_, down_, hidden, *scratch_, y.row_range(first, rows));
    });
  }

 private:
  // Returns the input of gate and up.
  ConstMatrixView narrow_input(ConstMatrixView x) const {
    if (in_.empty()) return x;
    const MutableMatrixView t(scratch_->narrow.reserve(x.rows * in_.rank()), x.rows, in_.rank());
    const Product product[] = {in_.narrow(kernels_, x, scratch_->rows, t)};
    multiply(kernels_, product);
    return t;
  }

  // Returns the packed input, or no rows if the layer has input pivots, which gather their columns
  // themselves.
  PackedRows packed_input(const PackedLinear& linear, ConstMatrixView x,
                          Buffer<float>& storage) const {
    if (!linear.in().empty()) return {};
    return pack_rows(kernels_, x, linear.first_type(), storage);
  }
  Product strip_product(const PackedLinear& linear, ConstMatrixView x, const PackedRows& rows,
                        Buffer<float>& storage, MutableMatrixView strip) const {
    if (linear.in().empty()) return linear.strip_product(rows, strip);
    return linear.in().narrow(kernels_, x, storage, strip);
  }

  PackedRows apply_gate_up(ConstMatrixView x) const {
    LayerScratch& s = *scratch_;
    const bool same_rows = gate_.in().empty() && gate_.first_type() == up_.first_type();
    PackedRows gate_rows = packed_input(gate_, x, s.rows);
    PackedRows up_rows =
        same_rows && up_.in().empty() ? gate_rows : packed_input(up_, x, s.second_rows);
    const MutableMatrixView gate_strip = gate_.strip_in(s.strip, x.rows);
    const MutableMatrixView up_strip = up_.strip_in(s.second_strip, x.rows);
    Product strips[2];
    size_t count = 0;
    if (gate_.has_strip()) {
      strips[count++] = strip_product(gate_, x, gate_rows, s.rows, gate_strip);
    }
    if (up_.has_strip()) {
      strips[count++] = strip_product(up_, x, up_rows, s.second_rows, up_strip);
    }
    multiply(kernels_, std::span(strips, count));
    if (gate_.has_strip()) {
      gate_rows = pack_rows(kernels_, gate_strip, gate_.last_type(), s.strip_rows);
    }
    if (up_.has_strip()) {
      up_rows = pack_rows(kernels_, up_strip, up_.last_type(), s.second_strip_rows);
    }

    // Gate and up are never stored as whole matrices; only the packed hidden rows are.
    const RowPacker hidden(kernels_, x.rows, up_.out_features(), down_.first_type(), s.hidden_rows);
    const GateUp gate_up[] = {
        {.gate = gate_.output(gate_rows, {}), .up = up_.output(up_rows, {}), .hidden = &hidden}};
    multiply_gate_up(kernels_, gate_up, gating_, s.gate_up);
    return hidden.rows();
  }

  const Kernels& kernels_;
  std::shared_ptr<LayerScratch> scratch_;
  PackedPivots in_;
  PackedLinear gate_, up_, down_;
  const Gating gating_;
};

}  // namespace

std::unique_ptr<ops::Mlp> make_mlp(const Kernels& kernels, std::shared_ptr<LayerScratch> scratch,
                                   const ops::MlpWeight& weight, ForeignWeights foreign) {
  return std::make_unique<CpuMlp>(kernels, std::move(scratch), weight, foreign);
}

}  // namespace neuronmm::cpu
