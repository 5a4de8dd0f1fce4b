// Tests in a single process that a tensor-parallel model behaves well if a forward pass fails or is
// stopped.

#include "tensor_parallel/backend.h"

#include <atomic>
#include <new>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "base/workers_lost.h"
#include "cpu/backend.h"
#include "model/tiny_model.h"
#include "model/transformer.h"
#include "ops/forwarding_backend.h"

namespace neuronmm::tensor_parallel {
namespace {

// A CPU backend whose attention runs out of memory while `fails` is true.
class FailingBackend : public ops::ForwardingBackend {
 public:
  explicit FailingBackend(const bool& fails)
      : ForwardingBackend(cpu::make_backend()), fails_(fails) {}
  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
                 MutableMatrixView y) const override {
    if (fails_) throw std::bad_alloc();
    inner().attention(shape, layer, q, k, v, batch, y);
  }

 private:
  const bool& fails_;
};

// A pass that ended in the middle would leave the other processes waiting for the rest of it. The
// backend therefore ignores a stop, and reports the workers as lost if the pass fails.
TEST(SharedBackend, APassIsFinishedDespiteAStopAndAFailureLosesTheWorkers) {
  const io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  const model::ModelFolder folder;
  folder.write_text("config.json", model::config_json(config));
  folder.write_tensors(model::random_tensors(config, 4));
  bool fails = false;
  const auto all = parallel::make_single();
  const auto backend = make_backend(*all, std::make_unique<FailingBackend>(fails), {});
  const auto transformer = model::Transformer::load(folder.path(), *backend);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  const auto cache = transformer->make_cache(20);
  const std::vector<model::TokenId> tokens = {1, 2, 3};
  const std::atomic<bool> stop = true;
  const StoppableLoops stoppable(stop);
  EXPECT_EQ(transformer->forward(tokens, *cache, model::Logits::kLast).rows(), 1);
  EXPECT_THROW(parallel_for(2, [](int64_t) {}), LoopsStopped);
  fails = true;
  EXPECT_THROW(transformer->forward(tokens, *cache, model::Logits::kLast), WorkersLost);
}

}  // namespace
}  // namespace neuronmm::tensor_parallel
