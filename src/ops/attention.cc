#include "ops/attention.h"

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
        norm_eps_(weight.norm_eps),
        q_(backend.make_linear(weight.q)),
        k_(backend.make_linear(weight.k)),
        v_(backend.make_linear(weight.v)),
        o_(backend.make_linear(weight.o)) {}

  void apply(ConstMatrixView x, const RotaryEmbedding& rotary, int64_t layer, Batch batch,
             MutableMatrixView y) const override {
    const int64_t head_dim = shape_.head_dim;
    const ScratchMatrix q(x.rows, shape_.num_attention_heads * head_dim);
    const ScratchMatrix k(x.rows, shape_.num_key_value_heads * head_dim), v(x.rows, k.columns());
    const Linear* const projections[] = {q_.get(), k_.get(), v_.get()};
    const MutableMatrixView projected[] = {q.view(), k.view(), v.view()};
    backend_.apply_together(projections, x, projected);
    norm_heads(q, q_norm_);
    norm_heads(k, k_norm_);
    // Values are not rotated, because positions enter through the products of queries and keys.
    const std::vector<int64_t> positions = positions_of(batch);
    backend_.rope(q.view(), head_dim, positions, rotary);
    backend_.rope(k.view(), head_dim, positions, rotary);
    const ScratchMatrix mixed(x.rows, q.columns());
    backend_.attention(shape_, layer, q.view(), k.view(), v.view(), batch, mixed.view());
    o_->apply(mixed.view(), y);
  }

 private:
  // Normalizes every head of every row separately. Does nothing without gains.
  void norm_heads(const ScratchMatrix& x, const std::vector<float>& gains) const {
    if (gains.empty()) return;
    const int64_t heads = x.columns() / shape_.head_dim;
    const MutableMatrixView rows(x.data(), x.rows() * heads, shape_.head_dim);
    backend_.rms_norm(rows, gains, norm_eps_, rows);
  }

  const Backend& backend_;
  const AttentionShape shape_;
  const std::vector<float> q_norm_, k_norm_;
  const float norm_eps_;
  const std::unique_ptr<Linear> q_, k_, v_, o_;
};

}  // namespace

std::unique_ptr<Attention> compose_attention(const Backend& backend,
                                             const AttentionWeight& weight) {
  return std::make_unique<ComposedAttention>(backend, weight);
}

}  // namespace neuronmm::ops
