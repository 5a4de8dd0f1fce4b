// This test checks the copies of weights in memory domains. Both domains of the test are made of
// this machine's cores, so that it runs everywhere.

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/cpu_quota.h"
#include "base/memory_domains.h"
#include "base/parallel.h"
#include "cpu/backend.h"
#include "cpu/packed_matrix.h"
#include "ops/owned_tensor.h"
#include "ops/quantize.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kCopiesSeed = 23;
constexpr int64_t kCopiedK = 300, kCopiedN = 2100;
constexpr int kThreads = 4;

class WeightCopies : public testing::Test {
 protected:
  WeightCopies() { set_num_threads(kThreads); }
  ~WeightCopies() override {
    bind_threads({}, 0);
    parallel_for(64, [](int64_t) {});  // releases the threads
    set_num_threads(before_);
  }
  static void bind() {
    const std::vector<int> cores = allowed_core_list();
    bind_threads({{0, cores}, {0, cores}}, kThreads);
  }

  const int before_ = num_threads();
  std::mt19937_64 random_{kCopiesSeed};
  const OwnedTensor fp32_ = {
      DType::kF32, {kCopiedN, kCopiedK}, random_values(kCopiedN* kCopiedK, random_)};
  const OwnedTensor bf16_ = {
      DType::kBF16, {kCopiedN, kCopiedK}, random_values(kCopiedN* kCopiedK, random_)};
  const ops::QuantizedWeight int8_ = ops::quantize(fp32_.view());
  const std::vector<ops::WeightView> weights_ = {fp32_.view(), bf16_.view(), int8_.view()};
};

TEST_F(WeightCopies, EachDomainReadsItsOwn) {
  for (const ops::WeightView& weight : weights_) {
    bind();
    const PackedMatrix packed(weight);
    std::mutex mutex;
    std::set<const uint32_t*> of_domain[2];
    std::atomic<int> arrived = 0;
    parallel_for(kThreads, [&](int64_t) {
      for (++arrived; arrived < kThreads;) std::this_thread::yield();  // all threads take part
      const std::lock_guard lock(mutex);
      of_domain[thread_domain()].insert(packed.panel(1));
    });
    ASSERT_EQ(of_domain[0].size(), 1u);
    ASSERT_EQ(of_domain[1].size(), 1u);
    const uint32_t *const first = *of_domain[0].begin(), *const copy = *of_domain[1].begin();
    EXPECT_NE(first, copy);
    const int64_t before = packed.panel_words();  // panel 1 follows panel 0
    EXPECT_EQ(std::memcmp(first - before, copy - before, packed.size_bytes()), 0);
  }
}

TEST_F(WeightCopies, ChangeNoResult) {
  const auto backend = make_backend();
  for (const ops::WeightView& weight : weights_) {
    for (const int64_t rows : {1, 40}) {
      const OwnedTensor x(DType::kF32, {rows, kCopiedK}, random_values(rows * kCopiedK, random_));
      const ConstMatrixView view(reinterpret_cast<const float*>(x.view().data), rows, kCopiedK);
      Matrix expected(rows, kCopiedN), found(rows, kCopiedN);
      bind_threads({}, 0);
      backend->make_linear({.w_t = weight})->apply(view, expected.view());
      bind();
      const auto copied = backend->make_linear({.w_t = weight});
      for (int round = 0; round < 20; ++round) {
        copied->apply(view, found.view());
        ASSERT_EQ(std::memcmp(expected.data(), found.data(),
                              static_cast<size_t>(rows * kCopiedN) * sizeof(float)),
                  0)
            << rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace neuronmm::cpu
