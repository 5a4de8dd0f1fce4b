#include "cpu/linear.h"

#include <optional>
#include <utility>

namespace neuronmm::cpu {
namespace {

class CpuLinear : public ops::Linear {
 public:
  CpuLinear(const Kernels& kernels, std::shared_ptr<LayerScratch> scratch,
            const ops::LinearWeight& weight)
      : kernels_(kernels), scratch_(std::move(scratch)), linear_(weight) {}

  const PackedLinear& packed() const { return linear_; }
  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    NMM_CHECK(x.rows == y.rows && x.columns == linear_.in_features() &&
              y.columns == linear_.out_features());
    for_each_row_block(x.rows, [&](int64_t first, int64_t rows) {
      const PackedRows a =
          pack_rows(kernels_, x.row_range(first, rows), linear_.first_type(), scratch_->rows);
      apply_linear(kernels_, linear_, a, *scratch_, y.row_range(first, rows));
    });
  }

 private:
  const Kernels& kernels_;
  std::shared_ptr<LayerScratch> scratch_;
  PackedLinear linear_;
};

}  // namespace

// The bias is padded to whole panels, so that a product may read it in whole vectors.
PackedLinear::PackedLinear(const ops::LinearWeight& weight)
    : w_(weight.low_rank() ? weight.v_t : weight.w_t) {
  if (weight.low_rank()) {
    u_ = PackedMatrix(weight.u_t);
    NMM_CHECK(u_.n() == w_.k());
  }
  if (!weight.bias.empty()) {
    NMM_CHECK(weight.bias.size() == w_.n());
    bias_.resize(static_cast<size_t>(w_.panels() * kPanel));
    to_floats(weight.bias, 0, w_.n(), bias_.data());
  }
}

// Both factors for one block of rows: the strip X·U is packed again as the left factor of the
// second product while it is in cache.
void apply_linear(const Kernels& kernels, const PackedLinear& linear, const PackedRows& x,
                  LayerScratch& scratch, MutableMatrixView y) {
  PackedRows a = x;
  if (linear.low_rank()) {
    const int64_t rank = linear.rank();
    const MutableMatrixView strip(scratch.strip.reserve(x.rows * rank), x.rows, rank);
    const Product first[] = {linear.strip(x, strip)};
    multiply(kernels, first);
    a = pack_rows(kernels, strip, linear.last_type(), scratch.strip_rows);
  }
  const Product second[] = {linear.output(a, y)};
  multiply(kernels, second);
}

// Layers that read the same x: dense ones with the type of weights of the first of them share its
// packing and one parallel loop; the others run by themselves.
void apply_together(const Kernels& kernels, LayerScratch& scratch,
                    std::span<const ops::Linear* const> linears, ConstMatrixView x,
                    std::span<const MutableMatrixView> ys) {
  std::optional<WeightType> type;  // of those that go together
  std::vector<std::pair<const PackedLinear*, MutableMatrixView>> together;
  for (size_t i = 0; i < linears.size(); ++i) {
    const auto* const linear = dynamic_cast<const CpuLinear*>(linears[i]);
    NMM_CHECK(linear != nullptr);
    const PackedLinear& packed = linear->packed();
    if (packed.low_rank() || (type && packed.first_type() != *type)) {
      linear->apply(x, ys[i]);
      continue;
    }
    NMM_CHECK(x.rows == ys[i].rows && x.columns == packed.in_features() &&
              ys[i].columns == packed.out_features());
    type = packed.first_type();
    together.emplace_back(&packed, ys[i]);
  }
  if (!type) return;
  for_each_row_block(x.rows, [&](int64_t first, int64_t rows) {
    const PackedRows a = pack_rows(kernels, x.row_range(first, rows), *type, scratch.rows);
    std::vector<Product> products;
    for (const auto& [linear, y] : together) {
      products.push_back(linear->output(a, y.row_range(first, rows)));
    }
    multiply(kernels, products);
  });
}

std::unique_ptr<ops::Linear> make_linear(const Kernels& kernels,
                                         std::shared_ptr<LayerScratch> scratch,
                                         const ops::LinearWeight& weight) {
  return std::make_unique<CpuLinear>(kernels, std::move(scratch), weight);
}

}  // namespace neuronmm::cpu
