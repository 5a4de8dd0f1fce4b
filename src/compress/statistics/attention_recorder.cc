#include "compress/statistics/attention_recorder.h"

#include <algorithm>

namespace neuronmm::compress {
namespace {

class RecordedLinear : public ops::Linear {
 public:
  RecordedLinear(std::unique_ptr<ops::Linear> linear, const AttentionRecorder::Seen& seen)
      : linear_(std::move(linear)), seen_(seen) {}

  const ops::Linear& behind() const { return *linear_; }
  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    seen_(x);
    linear_->apply(x, y);
  }

 private:
  std::unique_ptr<ops::Linear> linear_;
  const AttentionRecorder::Seen& seen_;
};

}  // namespace

// Only the output projection is applied by itself, so its observer is given to every linear layer.
// q, k and v are applied together, and apply_together() reports their input.
std::unique_ptr<ops::Linear> AttentionRecorder::make_linear(const ops::LinearWeight& weight) const {
  return std::make_unique<RecordedLinear>(inner().make_linear(weight), observers_.heads);
}

void AttentionRecorder::apply_together(std::span<const ops::Linear* const> linears,
                                       ConstMatrixView x,
                                       std::span<const MutableMatrixView> ys) const {
  observers_.projections(x);
  inputs_ = Matrix(x.rows, x.columns);
  for (int64_t i = 0; i < x.rows; ++i) std::copy_n(x.row(i), x.columns, inputs_.row(i));
  std::vector<const ops::Linear*> behind;
  for (const ops::Linear* linear : linears) {
    behind.push_back(&static_cast<const RecordedLinear*>(linear)->behind());
  }
  inner().apply_together(behind, x, ys);
}

// The inner backend computes attention once for each slice of the inputs, with the slice in the
// place of v. The layer's own keys and values then overwrite what these calls leave in the cache.
void AttentionRecorder::attention(const ops::AttentionShape& shape, int64_t layer,
                                  ConstMatrixView q, ConstMatrixView k, ConstMatrixView v,
                                  ops::Batch batch, MutableMatrixView y) const {
  NMM_CHECK(batch.size() == 1);
  const int64_t rows = std::min(q.rows, kMixedTokens), width = shape.head_dim;
  const ops::SequenceRows first_rows = {batch[0].cache, rows};
  Matrix slice(rows, v.columns), of_heads(rows, q.columns), mixed(rows, inputs_.columns());
  for (int64_t column = 0; column < inputs_.columns(); column += width) {
    const int64_t count = std::min(width, inputs_.columns() - column);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t head = 0; head < shape.num_key_value_heads; ++head) {
        std::copy_n(inputs_.row(i) + column, count, slice.row(i) + head * width);
      }
    }
    inner().attention(shape, layer, q.row_range(0, rows), k.row_range(0, rows), slice.view(),
                      std::span(&first_rows, 1), of_heads.view());
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t head = i % shape.num_attention_heads;
      std::copy_n(of_heads.row(i) + head * width, count, mixed.row(i) + column);
    }
  }
  observers_.mixed(mixed.view());
  inner().attention(shape, layer, q, k, v, batch, y);
}

}  // namespace neuronmm::compress
