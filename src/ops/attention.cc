#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "base/scratch_matrix.h"
#include "ops/backend.h"

namespace neuronmm::ops {
namespace {

// Returns the position of every row of the batch within its own sequence.
std::vector<int64_t> positions_of(Batch batch) {
  std::vector<int64_t> positions;
  for (const auto& [cache, rows] : batch) {
    for (int64_t i = 0; i < rows; ++i) positions.push_back(cache->length() + i);
  }
  return positions;
}

class ComposedAttention : public Attention {
 public:
  ComposedAttention(const Backend& backend, const AttentionWeight& weight)
      : backend_(backend),
        shape_(weight.shape),
        q_norm_(weight.q_norm),
        k_norm_(weight.k_norm),
        norms_(weight.norms),
        means_(weight.whole_width_means),
        norm_eps_(weight.norm_eps),
        temperature_beta_(weight.temperature_beta),
        temperature_context_(weight.temperature_context),
        clamp_(weight.clamp),
        q_(backend.make_linear(weight.q)),
        k_(backend.make_linear(weight.k)),
        v_(backend.make_linear(weight.v)),
        o_(backend.make_linear(weight.o)) {}

  void apply(ConstMatrixView x, const RotaryEmbedding& rotary, int64_t layer, Batch batch,
             MutableMatrixView y) const override {
    const ScratchMatrix q(x.rows, shape_.num_attention_heads * shape_.head_dim);
    const ScratchMatrix k(x.rows, shape_.num_key_value_heads * shape_.head_dim);
    const ScratchMatrix v(x.rows, k.columns());
    const Linear* const projections[] = {q_.get(), k_.get(), v_.get()};
    const MutableMatrixView projected[] = {q.view(), k.view(), v.view()};
    backend_.apply_together(projections, x, projected);
    const std::vector<int64_t> positions = positions_of(batch);
    if (norms_ != HeadNorms::kAfterRope) norm(q, k);
    if (clamp_ != 0.0f) {
      for (const ScratchMatrix* const values : {&q, &k, &v}) limit(values->view());
    }
    // Values are not rotated, because positions enter through the products of queries and keys.
    if (!rotary.inverse_frequencies.empty()) turn(q, k, positions, rotary, batch);
    if (norms_ == HeadNorms::kAfterRope) norm(q, k);
    if (temperature_beta_ != 0.0) heat(positions, q.view());
    const ScratchMatrix mixed(x.rows, q.columns());
    backend_.attention(shape_, layer, q.view(), k.view(), v.view(), batch, mixed.view());
    o_->apply(mixed.view(), y);
  }

 private:
  void norm(const ScratchMatrix& q, const ScratchMatrix& k) const {
    if (q_norm_.empty()) return;
    if (norms_ != HeadNorms::kWholeWidth) {
      norm_heads(q, q_norm_);
      norm_heads(k, k_norm_);
    } else if (means_) {
      const std::vector<double> means = means_(q.view(), k.view());
      norm_rows(q.view(), std::span(means).first(static_cast<size_t>(q.rows())), q_norm_);
      norm_rows(k.view(), std::span(means).subspan(static_cast<size_t>(q.rows())), k_norm_);
    } else {
      backend_.rms_norm(q.view(), q_norm_, norm_eps_, q.view());
      backend_.rms_norm(k.view(), k_norm_, norm_eps_, k.view());
    }
  }

  // Turns queries and keys. Sequences that turn alike are one call.
  void turn(const ScratchMatrix& q, const ScratchMatrix& k, const std::vector<int64_t>& positions,
            const RotaryEmbedding& rotary, Batch batch) const {
    const bool chooses = !rotary.long_inverse_frequencies.empty();
    const RotaryEmbedding longer = {rotary.long_inverse_frequencies, rotary.attention_factor};
    int64_t first = 0;
    for (size_t i = 0; i < batch.size();) {
      const bool is_long = chooses && batch[i].cache->long_rope();
      int64_t rows = 0;
      for (; i < batch.size() && (!chooses || batch[i].cache->long_rope() == is_long); ++i) {
        rows += batch[i].rows;
      }
      const auto here =
          std::span(positions).subspan(static_cast<size_t>(first), static_cast<size_t>(rows));
      for (const ScratchMatrix* const x : {&q, &k}) {
        backend_.rope(x->view().row_range(first, rows), shape_.head_dim, here,
                      is_long ? longer : rotary);
      }
      first += rows;
    }
  }

  // Normalizes rows whose mean squares are known.
  void norm_rows(MutableMatrixView x, std::span<const double> means,
                 const std::vector<float>& gains) const {
    for (int64_t i = 0; i < x.rows; ++i) {
      const double scale = 1.0 / std::sqrt(means[static_cast<size_t>(i)] + double{norm_eps_});
      for (int64_t j = 0; j < x.columns; ++j) {
        x.row(i)[j] *= static_cast<float>(scale) * gains[static_cast<size_t>(j)];
      }
    }
  }

  // NaN stays NaN.
  void limit(MutableMatrixView x) const {
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < x.columns; ++j)
        x.row(i)[j] = std::clamp(x.row(i)[j], -clamp_, clamp_);
    }
  }

  // Multiplies each query by the factor of its position. Positions below the context have 1.
  void heat(const std::vector<int64_t>& positions, MutableMatrixView q) const {
    for (int64_t i = 0; i < q.rows; ++i) {
      const int64_t contexts = positions[static_cast<size_t>(i)] / temperature_context_;
      if (contexts == 0) continue;
      const double factor = 1.0 + temperature_beta_ * std::log1p(static_cast<double>(contexts));
      backend_.scale(static_cast<float>(factor), q.row_range(i, 1));
    }
  }

  // Normalizes every head of every row separately.
  void norm_heads(const ScratchMatrix& x, const std::vector<float>& gains) const {
    const int64_t heads = x.columns() / shape_.head_dim;
    const MutableMatrixView rows(x.data(), x.rows() * heads, shape_.head_dim);
    backend_.rms_norm(rows, gains, norm_eps_, rows);
  }

  const Backend& backend_;
  const AttentionShape shape_;
  const std::vector<float> q_norm_, k_norm_;
  const HeadNorms norms_;
  const WholeWidthMeans means_;
  const float norm_eps_;
  const double temperature_beta_;
  const int64_t temperature_context_;
  const float clamp_;
  const std::unique_ptr<Linear> q_, k_, v_, o_;
};

}  // namespace

std::unique_ptr<Attention> compose_attention(const Backend& backend,
                                             const AttentionWeight& weight) {
  return std::make_unique<ComposedAttention>(backend, weight);
}

}  // namespace neuronmm::ops
