#include "tensor_parallel/shared_mlp.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"

namespace neuronmm::tensor_parallel {
namespace {

// gate or up for a share of the neurons.
ops::LinearWeight neurons_out(ops::LinearWeight weight, const Share& neurons) {
  ops::WeightView& last = weight.low_rank() ? weight.v_t : weight.w_t;
  last = rows_of(last, neurons);
  return weight;
}

// What turns the sums of down's strip z [M, r] into y: V, or the map from the pivots to the rest.
class StripToOutput {
 public:
  StripToOutput(const ops::Backend& backend, const ops::LinearWeight& down)
      : index_(down.out.index) {
    if (!index_.empty()) others_ = ops::others(down.out);
    last_ = backend.make_linear({.w_t = index_.empty() ? down.v_t : down.out.map_t});
  }
  void apply(ConstMatrixView z, MutableMatrixView y) const {
    if (index_.empty()) return last_->apply(z, y);
    Matrix rest(z.rows, std::ssize(others_));
    last_->apply(z, rest.view());
    for (int64_t i = 0; i < z.rows; ++i) {
      for (size_t j = 0; j < index_.size(); ++j) y.row(i)[index_[j]] = z.row(i)[j];
      for (size_t j = 0; j < others_.size(); ++j) y.row(i)[others_[j]] = rest.row(i)[j];
    }
  }

 private:
  std::vector<int32_t> index_, others_;  // empty without pivots
  std::unique_ptr<ops::Linear> last_;
};

// kSumOutput and kSumStrip: an MLP of some of the neurons, whose output is a term of a sum.
class SummedMlp : public ops::Mlp {
 public:
  SummedMlp(const ops::Backend& backend, parallel::Communicator& communicator, parallel::Wire wire,
            const ops::MlpWeight& weight, MlpLayout layout)
      : communicator_(communicator), wire_(wire), rank_(weight.down.rank()) {
    const Share neurons = neurons_of(weight, communicator.process(), communicator.processes());
    const bool strip = layout == MlpLayout::kSumStrip;
    if (strip) to_output_ = std::make_unique<StripToOutput>(backend, weight.down);
    if (neurons.count == 0) return;
    ColumnCopies copies;
    ops::MlpWeight part = {neurons_out(weight.gate, neurons), neurons_out(weight.up, neurons),
                           weight.down, weight.in};
    ops::WeightView& first = part.down.low_rank() ? part.down.u_t : part.down.w_t;
    first = copies.columns_of(first, neurons);
    if (strip) part.down = {.w_t = first};
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
    } else {  // more processes than blocks of neurons
      for (int64_t i = 0; i < y.rows; ++i) std::fill_n(y.row(i), y.columns, 0.0f);
    }
    sum_matrix(communicator_, wire_, y);
  }

  parallel::Communicator& communicator_;
  const parallel::Wire wire_;
  const int64_t rank_;
  std::unique_ptr<ops::Mlp> part_;
  std::unique_ptr<StripToOutput> to_output_;  // kSumStrip
};

// kGatherStrips: U of gate and up by columns, too.
class GatheredMlp : public ops::Mlp {
 public:
  GatheredMlp(const ops::Backend& backend, parallel::Communicator& communicator,
              parallel::Wire wire, const ops::MlpWeight& weight)
      : backend_(backend),
        communicator_(communicator),
        wire_(wire),
        ranks_{weight.gate.rank(), weight.up.rank()},
        down_rank_(weight.down.rank()),
        to_output_(backend, weight.down) {
    neurons_ = neurons_of(weight, communicator.process(), communicator.processes()).count;
    const Share neurons = neurons_of(weight, communicator.process(), communicator.processes());
    const ops::LinearWeight* const linears[] = {&weight.gate, &weight.up};
    for (size_t i = 0; i < 2; ++i) {
      const Share mine = columns(i, communicator.process());
      if (mine.count > 0) {
        first_[i] = backend.make_linear({.w_t = rows_of(linears[i]->u_t, mine)});
      }
      if (neurons_ > 0) last_[i] = backend.make_linear({.w_t = rows_of(linears[i]->v_t, neurons)});
    }
    if (neurons_ == 0) return;
    ColumnCopies copies;
    const auto& down = weight.down.low_rank() ? weight.down.u_t : weight.down.w_t;
    down_ = backend.make_linear({.w_t = copies.columns_of(down, neurons)});
  }

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    const auto [gate_strip, up_strip] = strips(x);
    Matrix z(x.rows, down_rank_);
    if (neurons_ > 0) {
      Matrix gate(x.rows, neurons_), up(x.rows, neurons_);
      last_[0]->apply(gate_strip.view(), gate.view());
      last_[1]->apply(up_strip.view(), up.view());
      parallel_ranges(x.rows * neurons_, [&](int64_t first, int64_t end) {
        for (int64_t i = first; i < end; ++i) {
          const float value = gate.data()[i];
          gate.data()[i] = value / (1.0f + std::exp(-value)) * up.data()[i];
        }
      });
      down_->apply(gate.view(), z.view());
    }
    sum_matrix(communicator_, wire_, z.view());
    to_output_.apply(z.view(), y);
  }

 private:
  Share columns(size_t which, int process) const {
    return parallel::share_of(ranks_[which], process, communicator_.processes());
  }

  // X·U of gate and of up, whole: each process computes some columns of both, which are gathered at
  // once.
  std::pair<Matrix, Matrix> strips(ConstMatrixView x) const {
    const int64_t rows = x.rows;
    std::vector<int64_t> counts;
    for (int i = 0; i < communicator_.processes(); ++i) {
      counts.push_back(rows * (columns(0, i).count + columns(1, i).count));
    }
    std::vector<float> mine(
        static_cast<size_t>(counts[static_cast<size_t>(communicator_.process())]));
    float* next = mine.data();
    std::vector<const ops::Linear*> linears;
    std::vector<MutableMatrixView> ys;
    for (size_t which = 0; which < 2; ++which) {
      const int64_t width = columns(which, communicator_.process()).count;
      if (width == 0) continue;
      linears.push_back(first_[which].get());
      ys.emplace_back(next, rows, width);
      next += rows * width;
    }
    backend_.apply_together(linears, x, ys);
    std::vector<float> all(static_cast<size_t>(rows * (ranks_[0] + ranks_[1])));
    communicator_.all_gather(mine, counts, all, wire_);
    std::pair<Matrix, Matrix> result = {Matrix(rows, ranks_[0]), Matrix(rows, ranks_[1])};
    const float* from = all.data();
    for (int i = 0; i < communicator_.processes(); ++i) {
      for (const size_t which : {0, 1}) {
        const Share share = columns(which, i);
        Matrix& to = which == 0 ? result.first : result.second;
        for (int64_t row = 0; row < rows; ++row, from += share.count) {
          std::copy_n(from, share.count, to.row(row) + share.first);
        }
      }
    }
    return result;
  }

  const ops::Backend& backend_;
  parallel::Communicator& communicator_;
  const parallel::Wire wire_;
  const int64_t ranks_[2];
  const int64_t down_rank_;
  int64_t neurons_ = 0;  // of this process
  std::unique_ptr<ops::Linear> first_[2], last_[2], down_;
  StripToOutput to_output_;
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
