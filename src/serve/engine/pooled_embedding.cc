#include "serve/engine/pooled_embedding.h"

#include <algorithm>

namespace neuronmm::serve {

model::HiddenStates PooledEmbedding::wanted(bool completes_prompt) const {
  if (pooling_ == Pooling::kMean) return model::HiddenStates::kAll;
  return completes_prompt ? model::HiddenStates::kLast : model::HiddenStates::kNone;
}

void PooledEmbedding::add(int64_t position, ConstMatrixView rows) {
  sum_.resize(static_cast<size_t>(rows.columns));
  const int64_t known = pooling_ == Pooling::kMean ? tokens_ - position : 0;
  for (int64_t row = std::max<int64_t>(0, known); row < rows.rows; ++row) {
    for (int64_t i = 0; i < rows.columns; ++i) sum_[static_cast<size_t>(i)] += rows.row(row)[i];
    ++tokens_;
  }
}

std::vector<float> PooledEmbedding::value() const {
  std::vector<float> values(sum_.size());
  std::ranges::transform(sum_, values.begin(), [&](double sum) {
    return static_cast<float>(sum / static_cast<double>(tokens_));
  });
  return values;
}

}  // namespace neuronmm::serve
