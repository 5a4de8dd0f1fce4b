#include "cpu/backend.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "cpu/attention.h"
#include "cpu/kv_cache.h"
#include "cpu/linear.h"
#include "cpu/mlp.h"
#include "cpu/tasks.h"

namespace neuronmm::cpu {
namespace {

// In multiply-adds of data in cache (see for_each_task): one element that may come from memory, and
// one sine and cosine in fp64.
constexpr int64_t kElementWork = 4;
constexpr int64_t kSinCosWork = 2000;

class CpuBackend : public ops::Backend {
 public:
  std::string name() const override {
    const int threads = num_threads();
    return fmt::format("cpu ({}, {} thread{})", kernels_.target, threads, threads == 1 ? "" : "s");
  }

  std::unique_ptr<ops::Linear> make_linear(const ops::LinearWeight& weight) const override {
    return cpu::make_linear(kernels_, layer_scratch_, weight);
  }
  std::unique_ptr<ops::Mlp> make_mlp(const ops::MlpWeight& weight) const override {
    return cpu::make_mlp(kernels_, layer_scratch_, weight);
  }
  std::unique_ptr<ops::KvCache> make_kv_cache(const ops::KvCacheShape& shape) const override {
    return std::make_unique<CpuKvCache>(shape);
  }

  void rms_norm(ConstMatrixView x, std::span<const float> weight, float eps,
                MutableMatrixView y) const override {
    NMM_CHECK(x.rows == y.rows && x.columns == y.columns && std::ssize(weight) == x.columns);
    for_each_row(x, [&](int64_t i) {
      kernels_.rms_norm(x.row(i), weight.data(), eps, y.row(i), x.columns);
    });
  }

  void rope(MutableMatrixView x, int64_t head_dim, int64_t first_position,
            std::span<const float> inverse_frequencies) const override {
    const int64_t half = head_dim / 2;
    NMM_CHECK(std::ssize(inverse_frequencies) == half && x.columns % head_dim == 0);
    Buffer<float>& angles = rope_scratch_;
    angles.reserve(x.rows * 2 * half);
    for_each_task(x.rows, x.rows * (x.columns * kElementWork + half * kSinCosWork), [&](int64_t i) {
      float* const cos = angles.data() + i * 2 * half;
      float* const sin = cos + half;
      for (int64_t j = 0; j < half;
           ++j) {  // fp64: at position 100,000 an fp32 angle is off by 0.004
        const double angle = static_cast<double>(first_position + i) *
                             static_cast<double>(inverse_frequencies[static_cast<size_t>(j)]);
        cos[j] = static_cast<float>(std::cos(angle));
        sin[j] = static_cast<float>(std::sin(angle));
      }
      for (float* head = x.row(i); head < x.row(i) + x.columns; head += head_dim) {
        kernels_.rotate(cos, sin, head, head + half, half);
      }
    });
  }

  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::KvCache& cache,
                 MutableMatrixView y) const override {
    auto* const own = dynamic_cast<CpuKvCache*>(&cache);
    NMM_CHECK(own != nullptr);
    NMM_CHECK(cache.length() + q.rows <= cache.shape().capacity_tokens);
    NMM_CHECK(shape.num_attention_heads % shape.num_key_value_heads == 0);
    cpu::attention(kernels_, shape, layer, q, k, v, *own, attention_scratch_, y);
  }

  void add(ConstMatrixView x, MutableMatrixView y) const override {
    NMM_CHECK(x.rows == y.rows && x.columns == y.columns);
    for_each_row(x, [&](int64_t i) { kernels_.add(x.row(i), y.row(i), x.columns); });
  }

 private:
  template <typename Body>
  static void for_each_row(ConstMatrixView x, const Body& body) {
    for_each_task(x.rows, kElementWork * x.rows * x.columns, body);
  }

  const Kernels& kernels_ = best_kernels();
  std::shared_ptr<LayerScratch> layer_scratch_ = std::make_shared<LayerScratch>();
  mutable Buffer<float> attention_scratch_, rope_scratch_;
};

}  // namespace

std::unique_ptr<ops::Backend> make_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace neuronmm::cpu
