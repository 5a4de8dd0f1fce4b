// Compares the estimate of a run's memory with what the engine takes, and tests what is refused.

#include "finetune/memory_need.h"

#include "finetune_fixture.h"

namespace neuronmm::finetune {
namespace {

// A model of 1.5 billion parameters (Qwen2.5-Coder-1.5B's shapes).
MemoryCase large_model() {
  MemoryCase run;
  run.config.hidden_size = 1536;
  run.config.intermediate_size = 8960;
  run.config.num_hidden_layers = 28;
  run.config.num_attention_heads = 12;
  run.config.num_key_value_heads = 2;
  run.config.head_dim = 128;
  run.config.vocab_size = 151936;
  run.layer_parameters = 1'310'000'000;
  run.small_adapter_parameters = 9'000'000;
  run.teacher_parameters = run.layer_parameters;
  run.precision = training::Precision::kBf16;
  return run;
}

TEST(MemoryNeed, SaysWhatWouldFit) {
  const MemoryCase run = large_model();
  const auto fits = activation_budget(run, int64_t{300'000'000'000}, "model");
  ASSERT_TRUE(fits.ok());
  EXPECT_EQ(*fits, memory_need(run).activations);
  // Where memory is short, most layers are computed again.
  const MemoryNeed need = memory_need(run);
  const auto some = activation_budget(run, (need.fixed + need.activations / 2) * 10 / 9, "model");
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(*some, int64_t{1} << 30);
  const auto refused = activation_budget(run, int64_t{20'000'000'000}, "models/large");
  ASSERT_FALSE(refused.ok());
  for (const char* const word : {"models/large", "GB of memory, found 18.0 GB", "--lora 8"}) {
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
  }
  MemoryCase without_adapters = run;
  without_adapters.small_adapter_parameters = 0;
  const auto whole = activation_budget(without_adapters, int64_t{20'000'000'000}, "models/large");
  ASSERT_FALSE(whole.ok());
  EXPECT_EQ(whole.error().message.find("--lora"), std::string::npos) << whole.error().message;
  const auto none = activation_budget(run, int64_t{2'000'000'000}, "models/large");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("compress --reconstruct"), std::string::npos);
}

class FinetuneMemory : public Finetune {
 protected:
  void expect_estimate_covers_a_run();
};

// All matrices of a run with a teacher, of a model that is large enough to be pooled, take between
// a quarter and all of the estimate.
void FinetuneMemory::expect_estimate_covers_a_run() {
  write_model(input_, config_, model::random_tensors(config_, 3));
  write_model(dense_, config_, model::random_tensors(config_, 4));
  MemoryCase run;
  run.config = config_;
  run.together = 512;
  auto student = Student::load(
      {.model = input_.path(), .teacher = dense_.path(), .activation_bytes = int64_t{1} << 30});
  ASSERT_TRUE(student.ok()) << student.error().message;
  for (const auto& [name, tensor] : (*student)->model().checkpoint().tensors()) {
    if (is_of_layer(name)) run.layer_parameters += tensor.size();
  }
  run.teacher_parameters = run.layer_parameters;
  const MemoryNeed need = memory_need(run);
  (*student)->optimizer().keep_best();
  training::TrainingBatch batch;
  for (int i = 0; i < 8; ++i) {
    batch.sequences.push_back(model::random_tokens(64, config_.vocab_size, i));
  }
  (*student)->training().accumulate(batch, 1.0);
  (*student)->optimizer().update(1e-3);
  const int64_t taken = training::pooled_bytes_in_use();
  const int64_t fixed = need.fixed - (int64_t{64} << 20);  // without the program itself
  EXPECT_LE(taken, fixed + need.activations);
  EXPECT_GE(taken, fixed / 4);
}

TEST_F(FinetuneMemory, TheEstimateCoversWhatARunTakes) {
  config_.hidden_size = 128;
  config_.intermediate_size = 512;
  config_.vocab_size = 4096;
  expect_estimate_covers_a_run();
}

TEST_F(FinetuneMemory, TheEstimateCoversWhatAMixtureTakes) {
  config_ = model::tiny_config(io::Architecture::kGptOss);
  config_.hidden_size = 128;
  config_.experts->width = config_.intermediate_size = 192;
  config_.experts->active = 4;
  config_.vocab_size = 4096;
  expect_estimate_covers_a_run();
}

}  // namespace
}  // namespace neuronmm::finetune
