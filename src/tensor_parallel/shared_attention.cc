#include "tensor_parallel/shared_attention.h"

#include <algorithm>

#include "ops/forwarding_backend.h"
#include "tensor_parallel/heads.h"
#include "tensor_parallel/shared_mlp.h"

namespace neuronmm::tensor_parallel {
namespace {

// Lets another backend compute attention of heads that do not divide by their key-value heads: the
// missing heads become zeros. A query of zeros attends to all values equally, and its result is
// dropped.
class PaddedHeads : public ops::ForwardingBackend {
 public:
  PaddedHeads(const ops::Backend& backend, const HeadsHere& heads)
      : ForwardingBackend(backend), heads_(heads) {}

  void apply_together(std::span<const ops::Linear* const> linears, ConstMatrixView x,
                      std::span<const MutableMatrixView> ys) const override {
    inner().apply_together(linears, x, ys);
  }
  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
                 MutableMatrixView y) const override {
    ops::AttentionShape padded = shape;
    padded.num_attention_heads = shape.num_key_value_heads * heads_.group;
    const int64_t first = heads_.skipped * shape.head_dim;
    if (!shape.sinks.empty()) {  // those of the missing heads do not matter
      padded.sinks.assign(static_cast<size_t>(padded.num_attention_heads), 0.0f);
      std::ranges::copy(shape.sinks, padded.sinks.begin() + heads_.skipped);
    }
    Matrix all_q(q.rows, padded.num_attention_heads * shape.head_dim);
    Matrix all_y(q.rows, all_q.columns());
    for (int64_t i = 0; i < q.rows; ++i) std::copy_n(q.row(i), q.columns, all_q.row(i) + first);
    inner().attention(padded, layer, all_q.view(), k, v, batch, all_y.view());
    for (int64_t i = 0; i < y.rows; ++i) std::copy_n(all_y.row(i) + first, y.columns, y.row(i));
  }

 private:
  const HeadsHere heads_;
};

// The mean squares of q and k over the whole width of the model, of which each process has some
// heads. A key head that several processes have counts in the one with its first query head.
class SharedMeans {
 public:
  SharedMeans(parallel::Communicator& communicator, const ops::AttentionShape& whole,
              const Share& heads, const Share& kv)
      : communicator_(communicator), whole_(whole) {
    const int64_t group = whole.num_attention_heads / whole.num_key_value_heads;
    first_k_ = ((heads.first + group - 1) / group - kv.first) * whole.head_dim;
    end_k_ = ((heads.end() + group - 1) / group - kv.first) * whole.head_dim;
  }

  std::vector<double> operator()(ConstMatrixView q, ConstMatrixView k) const {
    std::vector<float> sums;
    for (int64_t i = 0; i < q.rows; ++i) sums.push_back(squares(q.row(i), 0, q.columns));
    for (int64_t i = 0; i < k.rows; ++i) sums.push_back(squares(k.row(i), first_k_, end_k_));
    communicator_.sum(sums, parallel::Wire::kFp32);
    std::vector<double> means(sums.begin(), sums.end());
    for (size_t i = 0; i < means.size(); ++i) {
      const bool query = i < static_cast<size_t>(q.rows);
      const int64_t count = query ? whole_.num_attention_heads : whole_.num_key_value_heads;
      means[i] /= static_cast<double>(count * whole_.head_dim);
    }
    return means;
  }

 private:
  static float squares(const float* row, int64_t first, int64_t end) {
    double sum = 0.0;
    for (int64_t j = first; j < end; ++j) sum += double{row[j]} * row[j];
    return static_cast<float>(sum);
  }

  parallel::Communicator& communicator_;
  const ops::AttentionShape whole_;
  int64_t first_k_, end_k_;  // the columns of k that count here
};

// Returns this process's part of the gains of a norm, or of the sinks.
std::vector<float> gains_of(const std::vector<float>& gains, const Share& columns) {
  if (gains.empty()) return {};
  return {gains.begin() + columns.first, gains.begin() + columns.end()};
}

class SharedAttention : public ops::Attention {
 public:
  SharedAttention(const ops::Backend& backend, parallel::Communicator& communicator,
                  parallel::Wire wire, const ops::AttentionWeight& weight, const Share& heads)
      : communicator_(communicator), wire_(wire) {
    const HeadsHere here = heads_here(weight.shape, heads);
    const Share kv = kv_heads_of(weight.shape, heads);
    const auto columns = [&](const Share& of) {
      return Share{of.first * weight.shape.head_dim, of.count * weight.shape.head_dim};
    };
    ColumnCopies copies;
    ops::AttentionWeight part = weight;
    part.shape = here.shape;
    part.shape.sinks = gains_of(weight.shape.sinks, heads);
    part.q = some_outputs(weight.q, columns(heads));
    part.k = some_outputs(weight.k, columns(kv));
    part.v = some_outputs(weight.v, columns(kv));
    part.o.w_t = copies.columns_of(weight.o.w_t, columns(heads));
    if (weight.norms == ops::HeadNorms::kWholeWidth && !weight.q_norm.empty()) {
      part.q_norm = gains_of(weight.q_norm, columns(heads));
      part.k_norm = gains_of(weight.k_norm, columns(kv));
      part.whole_width_means = SharedMeans(communicator, weight.shape, heads, kv);
    }
    if (!communicator.is_first()) part.o.bias = {};  // process 0 alone adds the bias
    if (here.group == 0) {
      part_ = backend.make_attention(part);
    } else {
      padded_ = std::make_unique<PaddedHeads>(backend, here);
      part_ = padded_->make_attention(part);
    }
  }

  void apply(ConstMatrixView x, const ops::RotaryEmbedding& rotary, int64_t layer, ops::Batch batch,
             MutableMatrixView y) const override {
    part_->apply(x, rotary, layer, batch, y);
    sum_matrix(communicator_, wire_, y);
  }

 private:
  parallel::Communicator& communicator_;
  const parallel::Wire wire_;
  std::unique_ptr<PaddedHeads> padded_;  // null if heads need no padding
  std::unique_ptr<ops::Attention> part_;
};

}  // namespace

std::unique_ptr<ops::Attention> make_shared_attention(const ops::Backend& backend,
                                                      parallel::Communicator& communicator,
                                                      parallel::Wire wire,
                                                      const ops::AttentionWeight& weight,
                                                      const Share& heads) {
  return std::make_unique<SharedAttention>(backend, communicator, wire, weight, heads);
}

}  // namespace neuronmm::tensor_parallel
