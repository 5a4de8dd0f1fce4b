// Tests fine-tuning of mixtures of experts and of attention with sinks.

#include <algorithm>
#include <set>

#include "compress/merge_adapter.h"
#include "cpu/backend.h"
#include "finetune_fixture.h"
#include "io/adapter.h"
#include "io/safetensors.h"
#include "model/transformer.h"
#include "training/drawn_model.h"

namespace neuronmm::finetune {
namespace {

class FinetuneMixture : public Finetune {
 protected:
  // Writes a student and a teacher without its compression. `name` is a case of drawn_config().
  void use(const std::string& name) {
    config_ = config_of(name);
    training::write_drawn_model(input_, config_, training::drawn_tensors(config_));
    const io::ModelConfig dense = config_of(name.substr(0, name.find('.')));
    training::write_drawn_model(dense_, dense, training::drawn_tensors(dense, "teacher."));
  }
  static io::ModelConfig config_of(const std::string& name) {
    io::ModelConfig config = training::drawn_config(name);
    config.vocab_size = 256;
    return config;
  }
  static std::set<std::string> stored_names(const fs::path& folder) {
    const auto file = io::SafetensorsFile::open(folder / "model.safetensors").value();
    std::set<std::string> names;
    for (const auto& [name, tensor] : file.tensors()) names.insert(name);
    return names;
  }
  // The values may be those of an expert in a stacked tensor.
  static std::vector<float> values_of(const TensorView& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.size()));
    to_floats(tensor, 0, tensor.size(), values.data());
    return values;
  }
  // Expects that exactly the tensors of layers have changed, except routers. An expert stays as it
  // was if no token has chosen it.
  void expect_only_layers_changed(const fs::path& out) {
    const auto before = io::Checkpoint::open(input_.path()), after = io::Checkpoint::open(out);
    ASSERT_TRUE(before.ok() && after.ok());
    ASSERT_EQ(before->tensors().size(), after->tensors().size());
    int64_t changed_experts = 0;
    for (const auto& [name, tensor] : before->tensors()) {
      const TensorView& other = after->tensors().at(name);
      ASSERT_EQ(other.shape, tensor.shape);
      const bool changed = values_of(tensor) != values_of(other);
      const bool of_expert = name.find(".experts.") != std::string::npos;
      EXPECT_TRUE(of_expert || changed == is_trained(name)) << name;
      changed_experts += of_expert && changed ? 1 : 0;
    }
    EXPECT_GT(changed_experts, 0);
  }
};

TEST_F(FinetuneMixture, EveryFormLearnsAndKeepsItsShape) {
  for (const std::string name : {"mixtral", "gpt_oss", "olmoe", "granite_moe", "mixtral.experts",
                                 "qwen3_moe.neurons", "olmoe.basis", "gpt_oss.mixed"}) {
    SCOPED_TRACE(name);
    use(name);
    FinetuneRequest wanted = request("out");
    wanted.recipe.tokens = 20 * 7 * 16;
    wanted.force = true;
    const FinetuneSummary summary = run_or_throw(wanted);
    EXPECT_EQ(summary.position.updates, 20);
    EXPECT_LT(best_of(summary.position.measurements).held_out,
              0.95 * summary.position.measurements.front().held_out);
    expect_only_layers_changed(path("out"));
    const io::Experts written =
        io::ModelConfig::load(path("out") / "config.json").value().experts.value();
    EXPECT_EQ(written.count, config_.experts->count);
    EXPECT_EQ(written.widths, config_.experts->widths);
    EXPECT_EQ(written.bases, config_.experts->bases);
    EXPECT_FALSE(fs::exists(path("out") / "modeling_neuronmm.py"));
    // Published classes of some families have the experts of a layer in one tensor.
    const std::set<std::string> names = stored_names(path("out"));
    const bool stacked = std::ranges::none_of(
        names, [](const std::string& stored) { return stored.find("experts.0.") != stored.npos; });
    EXPECT_EQ(stacked, name == "gpt_oss" || name == "granite_moe");
    EXPECT_EQ(model::all_logits(*model::Transformer::load(path("out"), *backend_), {1, 2}).rows(),
              2);
  }
}

TEST_F(FinetuneMixture, DistillationApproachesATeacherThatIsAMixture) {
  use("gpt_oss.mixed");
  FinetuneRequest wanted = request("out");
  wanted.teacher = dense_.path();
  wanted.validation = input_.path() / "other.txt";
  wanted.recipe.tokens = 30 * 7 * 16;
  const FinetuneSummary summary = run_or_throw(wanted);
  const std::vector<Measurement>& all = summary.position.measurements;
  EXPECT_LT(all.back().training, 0.8 * all[1].training);
  EXPECT_NEAR(all.front().held_out, validation_loss(input_.path(), wanted), 1e-5);
  EXPECT_NEAR(best_of(all).held_out, validation_loss(path("out"), wanted), 1e-5);
}

TEST_F(FinetuneMixture, AnInterruptedRunAndOtherThreadsGiveTheSameBytes) {
  use("mixtral.mixed");
  run_or_throw(request_with_everything("whole"));
  const FinetuneRequest parts = request_with_everything("parts");
  for (const int64_t stop : {2, 7}) {
    int64_t done = 0;
    const auto stopped = run(parts, [&](const StepReport&) { set_interrupted(++done == stop); });
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    set_interrupted(false);
    set_num_threads(3);
    run_or_throw(parts);
    set_num_threads(1);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
}

// The folder computes what training measured, in training's own forward pass and in that of the
// CPU's kernels (finetune_rounded_test.cc).
TEST_F(FinetuneMixture, TrainsThroughTheRounding) {
  const auto cpu = cpu::make_backend();
  for (const auto& [name, bits] : {std::pair("mixtral", 8), std::pair("olmoe.mixed", 4)}) {
    SCOPED_TRACE(name);
    use(name);
    FinetuneRequest wanted = request(std::string("out") + std::to_string(bits));
    wanted.weights = compress::quantized_formats(bits);
    wanted.validation = input_.path() / "other.txt";
    const FinetuneSummary summary = run_or_throw(wanted);
    const Measurement best = best_of(summary.position.measurements);
    EXPECT_LT(best.held_out, summary.position.measurements.front().held_out);
    const fs::path& out = wanted.out;
    EXPECT_EQ(io::ModelConfig::load(out / "config.json").value().quantization,
              compress::quantization_of(wanted.weights, config_));
    EXPECT_NEAR(validation_loss(out, wanted), best.held_out, 1e-5 * best.held_out);
    const auto student = model::Transformer::load(out, *cpu);
    ASSERT_TRUE(student.ok()) << student.error().message;
    double sum = 0.0, tokens = 0.0;
    for (const Example& example : validation_examples(wanted)) {
      const Matrix logits = model::all_logits(*student, example.tokens);
      for (int64_t i = 0; i + 1 < logits.rows(); ++i, ++tokens) {
        double total = 0.0;
        for (int64_t j = 0; j < logits.columns(); ++j) {
          total += std::exp(static_cast<double>(logits.row(i)[j]));
        }
        const auto label = example.tokens[static_cast<size_t>(i) + 1];
        sum += std::log(total) - static_cast<double>(logits.row(i)[label]);
      }
    }
    EXPECT_NEAR(sum / tokens, best.held_out, 0.02 * best.held_out);
  }
}

// transformers holds the experts of a layer in one parameter, so attention alone has adapters. A
// process may use one adapter of a folder, so every family has a test of its own.
class FinetuneMixtureAdapter : public FinetuneMixture,
                               public testing::WithParamInterface<const char*> {};

TEST_P(FinetuneMixtureAdapter, ChangesAttentionAlone) {
  use(GetParam());
  FinetuneRequest wanted = request("adapter");
  wanted.validation = input_.path() / "other.txt";
  wanted.teacher = dense_.path();
  wanted.recipe.lora_rank = 3;
  wanted.recipe.tokens = 15 * 7 * 16;
  const Measurement best = best_of(run_or_throw(wanted).position.measurements);
  io::use_adapter(input_.path(), wanted.out);
  const auto written = compress::write_merged({input_.path(), path("merged")}, silent_);
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_NEAR(validation_loss(path("merged"), wanted), best.held_out, 1e-4 * best.held_out);
  model::ModelFolder plain;
  training::write_drawn_model(plain, config_, training::drawn_tensors(config_));
  const auto before = io::Checkpoint::open(plain.path()),
             after = io::Checkpoint::open(path("merged"));
  ASSERT_TRUE(before.ok() && after.ok());
  int changed = 0;
  for (const auto& [name, tensor] : before->tensors()) {
    const bool same = values_of(tensor) == values_of(after->tensors().at(name));
    EXPECT_EQ(!same, may_adapt(name, config_)) << name;
    changed += same ? 0 : 1;
  }
  EXPECT_EQ(changed, 8);
}

INSTANTIATE_TEST_SUITE_P(Families, FinetuneMixtureAdapter,
                         testing::Values("mixtral", "gpt_oss", "granite_moe"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace neuronmm::finetune
