#include "tensor_parallel/shared_mlp.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "tensor_parallel/gathered_strips.h"

namespace neuronmm::tensor_parallel {
namespace {

// Returns the part of gate or up that computes a share of the neurons.
ops::LinearWeight neurons_out(ops::LinearWeight weight, const Share& neurons) {
  ops::WeightView& last = weight.low_rank() ? weight.v_t : weight.w_t;
  last = rows_of(last, neurons);
  if (!weight.bias.empty()) weight.bias = elements_of(weight.bias, neurons);
  return weight;
}

// Turns the summed strip z [M, r] of down into y. It multiplies by V, or by the map from the pivots
// to the other outputs, and adds the bias.
class StripToOutput {
 public:
  StripToOutput(const ops::Backend& backend, const ops::LinearWeight& down)
      : index_(down.out.index) {
    if (!index_.empty()) others_ = ops::non_pivots(down.out);
    if (index_.empty()) {
      last_ = backend.make_linear({.w_t = down.v_t, .bias = down.bias});
      return;
    }
    last_ = backend.make_linear({.w_t = down.out.map_t});
    if (down.bias.empty()) return;
    bias_.resize(static_cast<size_t>(down.bias.size()));
    to_floats(down.bias, 0, down.bias.size(), bias_.data());
  }
  void apply(ConstMatrixView z, MutableMatrixView y) const {
    if (index_.empty()) return last_->apply(z, y);
    Matrix rest(z.rows, std::ssize(others_));
    last_->apply(z, rest.view());
    for (int64_t i = 0; i < z.rows; ++i) {
      for (size_t j = 0; j < index_.size(); ++j) y.row(i)[index_[j]] = z.row(i)[j];
      for (size_t j = 0; j < others_.size(); ++j) y.row(i)[others_[j]] = rest.row(i)[j];
      for (size_t j = 0; j < bias_.size(); ++j) y.row(i)[j] += bias_[j];
    }
  }

 private:
  std::vector<int32_t> index_, others_;  // both empty if down has no pivots
  std::vector<float> bias_;              // of an output with pivots, or empty
  std::unique_ptr<ops::Linear> last_;
};

// The layouts kSumOutput and kSumStrip: an MLP of some of the neurons, whose output is a term of a
// sum.
class SummedMlp : public ops::Mlp {
 public:
  SummedMlp(const ops::Backend& backend, parallel::Communicator& communicator, parallel::Wire wire,
            const ops::MlpWeight& weight, MlpLayout layout)
      : communicator_(communicator), wire_(wire), rank_(weight.down.rank()) {
    const Share neurons = neurons_of(weight, communicator.process(), communicator.processes());
    const bool strip = layout == MlpLayout::kSumStrip;
    if (strip) to_output_ = std::make_unique<StripToOutput>(backend, weight.down);
    NMM_CHECK(neurons.count > 0 || !communicator.is_first());
    if (neurons.count == 0) return;
    ColumnCopies copies;
    ops::MlpWeight part = {neurons_out(weight.gate, neurons),
                           neurons_out(weight.up, neurons),
                           weight.down,
                           weight.in,
                           weight.activation,
                           weight.clamp};
    if (!communicator.is_first()) part.down.bias = {};  // process 0 alone adds the bias
    ops::WeightView& first = part.down.low_rank() ? part.down.u_t : part.down.w_t;
    first = copies.columns_of(first, neurons);
    if (strip) part.down = {.w_t = first};  // to_output_ adds the bias
    part_ = backend.make_mlp(part);
  }

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    if (to_output_ == nullptr) return apply_part(x, y);
    Matrix strip(x.rows, rank_);
    apply_part(x, strip.view());
    to_output_->apply(strip.view(), y);
  }

 private:
  void apply_part(ConstMatrixView x, MutableMatrixView y) const {
    if (part_ != nullptr) {
      part_->apply(x, y);
    } else {  // there are more processes than blocks of neurons
      for (int64_t i = 0; i < y.rows; ++i) std::fill_n(y.row(i), y.columns, 0.0f);
    }
    sum_matrix(communicator_, wire_, y);
  }

  parallel::Communicator& communicator_;
  const parallel::Wire wire_;
  const int64_t rank_;
  std::unique_ptr<ops::Mlp> part_;
  std::unique_ptr<StripToOutput> to_output_;  // null in kSumOutput
};

// The layout kGatherStrips, in which the strips of gate and up are computed by columns, too.
class GatheredMlp : public ops::Mlp {
 public:
  GatheredMlp(const ops::Backend& backend, parallel::Communicator& communicator,
              parallel::Wire wire, const ops::MlpWeight& weight)
      : communicator_(communicator),
        wire_(wire),
        down_rank_(weight.down.rank()),
        activation_(weight.activation),
        clamp_(weight.clamp),
        strips_(backend, communicator, wire, weight) {
    if (down_rank_ > 0) to_output_ = std::make_unique<StripToOutput>(backend, weight.down);
    const Share neurons = neurons_of(weight, communicator.process(), communicator.processes());
    neurons_ = neurons.count;
    if (neurons_ == 0) return;
    ColumnCopies copies;
    const auto& down = weight.down.low_rank() ? weight.down.u_t : weight.down.w_t;
    ops::LinearWeight down_part = {.w_t = copies.columns_of(down, neurons)};
    // Without a strip of down, process 0 alone adds its bias.
    if (down_rank_ == 0 && communicator.is_first()) down_part.bias = weight.down.bias;
    if (!weight.in.empty()) {
      fused_ = backend.make_mlp({neurons_out(weight.gate, neurons),
                                 neurons_out(weight.up, neurons),
                                 down_part,
                                 {},
                                 activation_,
                                 clamp_});
      return;
    }
    gate_ = backend.make_linear(behind_strip(neurons_out(weight.gate, neurons)));
    up_ = backend.make_linear(behind_strip(neurons_out(weight.up, neurons)));
    down_ = backend.make_linear(down_part);
  }

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    const std::vector<Matrix> strips = strips_.gather(x);
    if (to_output_ == nullptr) {
      apply_part(x, strips, y);
      return sum_matrix(communicator_, wire_, y);
    }
    Matrix z(x.rows, down_rank_);
    apply_part(x, strips, z.view());
    sum_matrix(communicator_, wire_, z.view());
    to_output_->apply(z.view(), y);
  }

 private:
  // Returns the second factor, which reads the strip. A matrix without a strip reads x.
  static ops::LinearWeight behind_strip(ops::LinearWeight weight) {
    if (weight.low_rank()) return {.w_t = weight.v_t, .bias = weight.bias};
    weight.in = {};
    return weight;
  }

  // Sets z to this process's term of the sum.
  void apply_part(ConstMatrixView x, const std::vector<Matrix>& strips, MutableMatrixView z) const {
    if (neurons_ == 0) {
      for (int64_t i = 0; i < z.rows; ++i) std::fill_n(z.row(i), z.columns, 0.0f);
      return;
    }
    if (fused_ != nullptr) return fused_->apply(strips[0].view(), z);
    const auto input = [&](size_t which) {
      const int strip = strips_.strip_of(which);
      return strip < 0 ? x : strips[static_cast<size_t>(strip)].view();
    };
    Matrix gate(x.rows, neurons_), up(x.rows, neurons_);
    gate_->apply(input(0), gate.view());
    up_->apply(input(1), up.view());
    parallel_ranges(x.rows * neurons_, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) {
        const float value = gate.data()[i];
        gate.data()[i] = activation_ == Activation::kSilu
                             ? value / (1.0f + std::exp(-value)) * up.data()[i]
                             : static_cast<float>(gated(activation_, clamp_, value, up.data()[i]));
      }
    });
    down_->apply(gate.view(), z);
  }

  parallel::Communicator& communicator_;
  const parallel::Wire wire_;
  const int64_t down_rank_;
  const Activation activation_;
  const SwigluClamp clamp_;
  const GatheredStrips strips_;
  int64_t neurons_ = 0;              // the neurons of this process
  std::unique_ptr<ops::Mlp> fused_;  // used if gate and up read the same strip
  std::unique_ptr<ops::Linear> gate_, up_, down_;
  std::unique_ptr<StripToOutput> to_output_;  // null if down has no strip
};

}  // namespace

void sum_matrix(parallel::Communicator& communicator, parallel::Wire wire, MutableMatrixView y) {
  if (y.stride == y.columns) {
    return communicator.sum(std::span(y.data, static_cast<size_t>(y.rows * y.columns)), wire);
  }
  Matrix dense(y.rows, y.columns);
  for (int64_t i = 0; i < y.rows; ++i) std::copy_n(y.row(i), y.columns, dense.row(i));
  sum_matrix(communicator, wire, dense.view());
  for (int64_t i = 0; i < y.rows; ++i) std::copy_n(dense.row(i), y.columns, y.row(i));
}

std::unique_ptr<ops::Mlp> make_shared_mlp(const ops::Backend& backend,
                                          parallel::Communicator& communicator, parallel::Wire wire,
                                          const ops::MlpWeight& weight, MlpLayout layout) {
  if (layout == MlpLayout::kGatherStrips) {
    return std::make_unique<GatheredMlp>(backend, communicator, wire, weight);
  }
  return std::make_unique<SummedMlp>(backend, communicator, wire, weight, layout);
}

}  // namespace neuronmm::tensor_parallel
