// Tests training of LoRA adapters: what they change, and that io::merge_adapter merges the written
// folder into a model with the loss that training measured.

#include "finetune/adapter_folder.h"

#include "compress/merge_adapter.h"
#include "finetune_fixture.h"
#include "io/adapter.h"

namespace neuronmm::finetune {
namespace {

class FinetuneAdapter : public Finetune {
 protected:
  FinetuneRequest adapter_request(const std::string& out) {
    write_model(input_, config_, model::random_tensors(config_, 3));
    FinetuneRequest wanted = request(out);
    wanted.validation = input_.path() / "other.txt";
    wanted.teacher = dense_.path();
    wanted.recipe.lora_rank = 3;
    wanted.recipe.tokens = 15 * 7 * 16;
    return wanted;
  }
};

TEST_F(FinetuneAdapter, TheMergedModelHasTheLossOfTraining) {
  const FinetuneRequest wanted = adapter_request("adapter");
  const FinetuneSummary summary = run_or_throw(wanted);
  const Measurement best = best_of(summary.position.measurements);
  EXPECT_LT(best.held_out, 0.95 * summary.position.measurements.front().held_out);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(path("adapter"))) {
    files.insert(entry.path().filename().string());
  }
  EXPECT_EQ(files, (std::set<std::string>{"adapter_config.json", "adapter_model.safetensors"}));
  // 7 matrices in each of 2 layers, of which every one has changed.
  io::use_adapter(input_.path(), path("adapter"));
  ASSERT_TRUE(compress::write_merged({input_.path(), path("merged")}, silent_).ok());
  EXPECT_NEAR(validation_loss(path("merged"), wanted), best.held_out, 1e-4 * best.held_out);
  model::ModelFolder plain;
  write_model(plain, config_, model::random_tensors(config_, 3));
  const auto before = io::Checkpoint::open(plain.path()),
             after = io::Checkpoint::open(path("merged"));
  ASSERT_TRUE(before.ok() && after.ok());
  int changed = 0;
  for (const auto& [name, tensor] : before->tensors()) {
    const TensorView& other = after->tensors().at(name);
    const bool same = std::equal(tensor.data, tensor.data + tensor.size_bytes(), other.data);
    EXPECT_EQ(!same, may_adapt(name, config_)) << name;
    changed += same ? 0 : 1;
  }
  EXPECT_EQ(changed, 14);
}

TEST_F(FinetuneAdapter, AnInterruptedRunAndAnotherSeed) {
  FinetuneRequest wanted = adapter_request("whole");
  run_or_throw(wanted);
  const auto file = [&](const std::string& out) {
    std::ifstream stream(path(out) / "adapter_model.safetensors", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  wanted.out = path("parts");
  ASSERT_FALSE(run(wanted, [](const StepReport& step) { set_interrupted(step.step == 6); }).ok());
  set_interrupted(false);
  run_or_throw(wanted);
  EXPECT_EQ(file("parts"), file("whole"));
  wanted.recipe.seed = 1;
  wanted.force = true;  // an adapter may be replaced
  run_or_throw(wanted);
  EXPECT_NE(file("parts"), file("whole"));
}

TEST_F(FinetuneAdapter, AKilledRunGivesTheSameBytes) {
  FinetuneRequest wanted = adapter_request("whole");
  run_or_throw(wanted);
  wanted.out = path("parts");
  for (const bool saves : {true, false}) {  // after each step, or never
    wanted.save_every = saves ? std::chrono::milliseconds(-1) : std::chrono::hours(1);
    run_and_die(wanted, 4);
    EXPECT_FALSE(fs::exists(path("parts")));
    run_and_die(wanted, 9);
    run_or_throw(wanted);
    EXPECT_EQ(bytes("parts", "adapter_model.safetensors"),
              bytes("whole", "adapter_model.safetensors"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(FinetuneAdapter, IsRefusedForCompressedModels) {
  FinetuneRequest wanted = adapter_request("adapter");
  write_model(input_, config_, compressed_model(config_, "narrow", 3));
  expect_refused(wanted, {"not compressed for --lora", "without --lora"});
}

}  // namespace
}  // namespace neuronmm::finetune
