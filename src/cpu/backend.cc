#include "cpu/backend.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/notices.h"
#include "cpu/attention.h"
#include "cpu/kv_cache.h"
#include "cpu/linear.h"
#include "cpu/mixture.h"
#include "cpu/mlp.h"
#include "cpu/rotary_angles.h"
#include "cpu/tasks.h"
#include "ops/limited_experts.h"

namespace neuronmm::cpu {
namespace {

// The cost of one element of an element-wise operation, in multiply-adds on data in cache (the unit
// of for_each_task). Assumed: such elements come from memory, which is about four times slower.
constexpr int64_t kElementWork = 4;

class CpuBackend : public ops::Backend, public ops::LimitedExperts {
 public:
  CpuBackend(const Kernels& kernels, KeysAndValues kv, ForeignWeights foreign, WeightMemory memory)
      : kernels_(kernels), kv_(kv), foreign_(foreign), memory_(std::move(memory)) {}

  std::string name() const override {
    const int threads = num_threads();
    return fmt::format("cpu ({}, {} thread{})", kernels_.target, threads, threads == 1 ? "" : "s");
  }

  bool rounds_foreign_weights() const override { return foreign_ == ForeignWeights::kNearest; }
  std::unique_ptr<ops::Linear> make_linear(const ops::LinearWeight& weight) const override {
    return cpu::make_linear(kernels_, layer_scratch_, weight, foreign_);
  }
  void apply_together(std::span<const ops::Linear* const> linears, ConstMatrixView x,
                      std::span<const MutableMatrixView> ys) const override {
    cpu::apply_together(kernels_, *layer_scratch_, linears, x, ys);
  }
  std::unique_ptr<ops::Mlp> make_mlp(const ops::MlpWeight& weight) const override {
    return cpu::make_mlp(kernels_, layer_scratch_, weight, foreign_);
  }
  std::unique_ptr<ops::Mlp> make_mixture(const ops::MixtureWeight& weight) const override {
    if (!runs_together(weight)) return ops::compose_mixture(*this, weight);
    return cpu::make_mixture(kernels_, layer_scratch_, experts_, *this, weight);
  }
  // Every model has a cache of its own, because a model may end before another one does.
  void plan_experts(std::span<const ops::MixtureWeight* const> mixtures,
                    int64_t other_bytes) const override {
    experts_ = std::make_shared<ExpertCache>(foreign_);
    int64_t bytes = 0, largest = 0, count = 0;
    for (const ops::MixtureWeight* const mixture : mixtures) {
      if (!runs_together(*mixture)) return;
      for (const ops::MlpWeight& expert : mixture->experts) {
        const int64_t of_expert = experts_->packed_bytes(expert);
        bytes += of_expert;
        largest = std::max(largest, of_expert);
        ++count;
      }
    }
    if (bytes <= memory_.bytes - other_bytes) return;
    const int64_t limit = std::max(memory_.bytes - other_bytes, largest);
    experts_->set_limit(limit);
    constexpr double kMega = 1e6;
    notify(
        fmt::format("experts: {:.1f} of {:.1f} MB ({} experts) stay in memory, because {}; the "
                    "others are read from the file whenever a token chooses them",
                    static_cast<double>(limit) / kMega, static_cast<double>(bytes) / kMega, count,
                    memory_.origin));
  }
  std::unique_ptr<ops::KvCache> make_kv_cache(const ops::KvCacheShape& shape) const override {
    return std::make_unique<CpuKvCache>(shape);
  }
  DType cache_dtype(DType wanted) const override {
    return kv_ == KeysAndValues::kInt8 ? DType::kI8 : wanted;
  }

  void rms_norm(ConstMatrixView x, std::span<const float> weight, float eps,
                MutableMatrixView y) const override {
    NMM_CHECK(x.rows == y.rows && x.columns == y.columns && std::ssize(weight) == x.columns);
    for_each_row(x, [&](int64_t i) {
      kernels_.rms_norm(x.row(i), weight.data(), eps, y.row(i), x.columns);
    });
  }

  void rope(MutableMatrixView x, int64_t head_dim, std::span<const int64_t> positions,
            const ops::RotaryEmbedding& rotary) const override {
    const int64_t half = std::ssize(rotary.inverse_frequencies);
    NMM_CHECK(2 * half <= head_dim && std::ssize(positions) == x.rows && x.columns % head_dim == 0);
    RotaryAngles& angles = angles_for(rotary);
    angles.update(positions, rotary);
    for_each_row(x, [&](int64_t i) {
      for (float* head = x.row(i); head < x.row(i) + x.columns; head += head_dim) {
        kernels_.rotate(angles.cos(i), angles.sin(i), head, head + half, half);
      }
    });
  }

  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
                 MutableMatrixView y) const override {
    cpu::attention(kernels_, shape, layer, q, k, v, batch, attention_scratch_, y);
  }

  void add(ConstMatrixView x, MutableMatrixView y) const override {
    NMM_CHECK(x.rows == y.rows && x.columns == y.columns);
    for_each_row(x, [&](int64_t i) { kernels_.add(x.row(i), y.row(i), x.columns); });
  }
  void scale(float factor, MutableMatrixView y) const override {
    for_each_row(y, [&](int64_t i) { kernels_.scale(factor, y.row(i), y.columns); });
  }
  // Single rows may be as long as the vocabulary, so they are cut into pieces.
  void soft_cap(float cap, MutableMatrixView y) const override {
    constexpr int64_t kPiece = 8192, kTanhWork = 8;  // elements, multiply-adds of each; assumed
    const int64_t pieces = (y.columns + kPiece - 1) / kPiece;
    for_each_task(y.rows * pieces, kTanhWork * y.rows * y.columns, [&](int64_t task) {
      const int64_t first = task % pieces * kPiece;
      kernels_.soft_cap(cap, y.row(task / pieces) + first, std::min(kPiece, y.columns - first));
    });
  }

 private:
  // Returns the table of these frequencies. Layers with other frequencies must not push each
  // other's table out, because every pass runs all of them.
  RotaryAngles& angles_for(const ops::RotaryEmbedding& rotary) const {
    constexpr size_t kMostTables = 8;  // assumed: more than the layers of one model have
    for (RotaryAngles& angles : angles_) {
      if (angles.rotary() == rotary) return angles;
    }
    if (angles_.size() == kMostTables) angles_.clear();
    return angles_.emplace_back();
  }

  template <typename Body>
  static void for_each_row(ConstMatrixView x, const Body& body,
                           CodePlace where = CodePlace::current()) {
    for_each_task(x.rows, kElementWork * x.rows * x.columns, body, where);
  }

  // All layers share one scratch, because one layer runs at a time. A backend must not compute in
  // two threads at once.
  const Kernels& kernels_;
  const KeysAndValues kv_;
  const ForeignWeights foreign_;
  const WeightMemory memory_;
  mutable std::shared_ptr<ExpertCache> experts_ = std::make_shared<ExpertCache>(foreign_);
  std::shared_ptr<LayerScratch> layer_scratch_ = std::make_shared<LayerScratch>();
  mutable Buffer<float> attention_scratch_;
  mutable std::vector<RotaryAngles> angles_;
};

}  // namespace

std::unique_ptr<ops::Backend> make_backend() { return make_backend(best_kernels()); }
std::unique_ptr<ops::Backend> make_backend(const Kernels& kernels, KeysAndValues kv,
                                           ForeignWeights foreign, WeightMemory memory) {
  return std::make_unique<CpuBackend>(kernels, kv, foreign, std::move(memory));
}

}  // namespace neuronmm::cpu
