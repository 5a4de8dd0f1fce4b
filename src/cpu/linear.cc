#include "cpu/linear.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "cpu/tasks.h"

namespace neuronmm::cpu {
namespace {

// Computes y from the packed strip, or from the packed input if there is no strip. With output
// pivots, the pivots' columns are multiplied by the map to the other columns while they are in
// cache.
void apply_last(const Kernels& kernels, const PackedLinear& linear, const PackedRows& a,
                LayerScratch& scratch, MutableMatrixView y) {
  const PackedPivots& out = linear.out();
  if (out.empty()) {
    const Product product[] = {linear.output(a, y)};
    multiply(kernels, product);
    return;
  }
  const int64_t others = out.features() - out.rank();
  const MutableMatrixView z(scratch.pivots.reserve(y.rows * out.rank()), y.rows, out.rank());
  const MutableMatrixView rest(scratch.rest.reserve(y.rows * others), y.rows, others);
  const Product pivots[] = {linear.output(a, z)};
  multiply(kernels, pivots);
  const PackedRows packed = pack_rows(kernels, z, out.map().type(), scratch.strip_rows);
  const Product mapped[] = {{.a = packed, .w = &out.map(), .y = rest}};
  multiply(kernels, mapped);
  out.widen(z, rest, y);
  if (linear.bias().empty()) return;
  for_each_task(y.rows, y.rows * y.columns,
                [&](int64_t i) { kernels.add(linear.bias().data(), y.row(i), y.columns); });
}

class CpuLinear : public ops::Linear {
 public:
  CpuLinear(const Kernels& kernels, std::shared_ptr<LayerScratch> scratch,
            const ops::LinearWeight& weight, ForeignWeights foreign)
      : kernels_(kernels),
        scratch_(std::move(scratch)),
        linear_(weight, foreign),
        rounds_twice_(weight.round_input_twice && linear_.first_type() == WeightType::kInt8) {
    NMM_CHECK(!weight.round_input_twice || (!linear_.has_strip() && linear_.out().empty()));
  }

  const PackedLinear& packed() const { return linear_; }
  bool rounds_twice() const { return rounds_twice_; }
  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    NMM_CHECK(x.rows == y.rows && x.columns == linear_.in_features() &&
              y.columns == linear_.out_features());
    for_each_row_block(x.rows, [&](int64_t first, int64_t rows) {
      const ConstMatrixView x_rows = x.row_range(first, rows);
      const MutableMatrixView y_rows = y.row_range(first, rows);
      rounds_twice_ ? apply_rounding_twice(x_rows, y_rows) : apply_block(x_rows, y_rows);
    });
  }

 private:
  void apply_block(ConstMatrixView x, MutableMatrixView y) const {
    LayerScratch& s = *scratch_;
    if (linear_.in().empty()) {
      const PackedRows a = pack_rows(kernels_, x, linear_.first_type(), s.rows);
      return apply_linear(kernels_, linear_, a, s, y);
    }
    const MutableMatrixView strip = linear_.strip_in(s.strip, x.rows);
    const Product first[] = {linear_.in().narrow(kernels_, x, s.rows, strip)};
    multiply(kernels_, first);
    apply_last(kernels_, linear_, pack_rows(kernels_, strip, linear_.last_type(), s.strip_rows), s,
               y);
  }

  // Processes a few rows at a time, because the parts of the sum take twice the memory of y.
  void apply_rounding_twice(ConstMatrixView x, MutableMatrixView y) const {
    constexpr int64_t kRows = 48;
    for (int64_t first = 0; first < x.rows; first += kRows) {
      const int64_t rows = std::min(kRows, x.rows - first);
      apply_block_rounding_twice(x.row_range(first, rows), y.row_range(first, rows));
    }
  }
  // Adds the rest that rounding leaves of each row as another row of the same product.
  void apply_block_rounding_twice(ConstMatrixView x, MutableMatrixView y) const {
    LayerScratch& s = *scratch_;
    const int64_t rows = x.rows, n = y.columns;
    const MutableMatrixView both(s.strip.reserve(2 * rows * x.columns), 2 * rows, x.columns);
    for_each_task(rows, rows * x.columns, [&](int64_t i) {
      std::copy_n(x.row(i), x.columns, both.row(i));
      kernels_.quantization_rest(x.row(i), x.columns, both.row(rows + i));
    });
    const PackedRows a = pack_rows(kernels_, both, linear_.first_type(), s.rows);
    const MutableMatrixView parts(s.second_strip.reserve(2 * rows * n), 2 * rows, n);
    Product product = linear_.output(a, parts);
    const float* const bias = std::exchange(product.bias, nullptr);
    multiply(kernels_, std::span(&product, 1));
    for_each_task(rows, rows * n, [&](int64_t i) {
      std::copy_n(parts.row(i), n, y.row(i));
      kernels_.add(parts.row(rows + i), y.row(i), n);
      if (bias != nullptr) kernels_.add(bias, y.row(i), n);
    });
  }

  const Kernels& kernels_;
  std::shared_ptr<LayerScratch> scratch_;
  PackedLinear linear_;
  bool rounds_twice_;
};

}  // namespace

// The bias is padded to whole panels, so that products may read whole vectors of it.
PackedLinear::PackedLinear(const ops::LinearWeight& weight, ForeignWeights foreign, Arena* arena)
    : w_(weight.low_rank() ? weight.v_t : weight.w_t, foreign, arena),
      in_(weight.in),
      out_(weight.out) {
  if (weight.low_rank()) {
    u_ = PackedMatrix(weight.u_t, foreign, arena);
    NMM_CHECK(u_.n() == w_.k());
  }
  NMM_CHECK(in_.empty() || in_.rank() == w_.k());
  NMM_CHECK(out_.empty() || out_.rank() == w_.n());
  if (!weight.bias.empty()) {
    NMM_CHECK(weight.bias.size() == out_features());
    bias_.resize(static_cast<size_t>((out_features() + kPanel - 1) / kPanel * kPanel));
    to_floats(weight.bias, 0, out_features(), bias_.data());
  }
}

// The strip X·U is packed as the left factor of the last product while it is in cache.
void apply_linear(const Kernels& kernels, const PackedLinear& linear, const PackedRows& x,
                  LayerScratch& scratch, MutableMatrixView y) {
  PackedRows a = x;
  if (linear.has_strip()) {
    const MutableMatrixView strip = linear.strip_in(scratch.strip, x.rows);
    const Product first[] = {linear.strip_product(x, strip)};
    multiply(kernels, first);
    a = pack_rows(kernels, strip, linear.last_type(), scratch.strip_rows);
  }
  apply_last(kernels, linear, a, scratch, y);
}

// Dense layers whose weights have the type of the first one share the packing of x and one parallel
// loop. The other layers run separately.
void apply_together(const Kernels& kernels, LayerScratch& scratch,
                    std::span<const ops::Linear* const> linears, ConstMatrixView x,
                    std::span<const MutableMatrixView> ys) {
  std::optional<WeightType> type;  // the type of the layers that run together
  std::vector<std::pair<const PackedLinear*, MutableMatrixView>> together;
  for (size_t i = 0; i < linears.size(); ++i) {
    const auto* const linear = dynamic_cast<const CpuLinear*>(linears[i]);
    NMM_CHECK(linear != nullptr);
    const PackedLinear& packed = linear->packed();
    if (packed.has_strip() || !packed.out().empty() || linear->rounds_twice() ||
        (type && packed.first_type() != *type)) {
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
                                         const ops::LinearWeight& weight, ForeignWeights foreign) {
  return std::make_unique<CpuLinear>(kernels, std::move(scratch), weight, foreign);
}

}  // namespace neuronmm::cpu
