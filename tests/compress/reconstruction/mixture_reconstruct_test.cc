// Tests compressions of mixtures of experts whose layers learn.

#include "compress/compressed_mixture.h"
#include "compress/mixture_fixture.h"
#include "compress/reconstruction/reconstruction.h"

namespace neuronmm::compress {
namespace {

class MixturesReconstruct : public MixtureTest {
 protected:
  void SetUp() override {
    MixtureTest::SetUp();
    use_mixture(4, 2);
  }
  CompressRequest learning(const std::string& out, Form form,
                           Allocate allocate = Allocate::kPredicted) const {
    CompressRequest wanted = mixture_of(out, form, allocate, 0.3);
    wanted.reconstruct = {Reconstruct::Mode::kTokens, 1 << 20};
    return wanted;
  }
  static CompressRequest without(CompressRequest request) {
    request.out += "-plain";
    request.reconstruct = {};
    return request;
  }
  // Runs the request with and without learning and compares what results.
  void expect_learns(const CompressRequest& wanted) {
    const std::string out = wanted.out.filename().string();
    EXPECT_FALSE(run_well(without(wanted)).reconstruction);
    const CompressSummary summary = run_well(wanted);
    ASSERT_TRUE(summary.reconstruction);
    const ReconstructionSummary& learnt = *summary.reconstruction;
    EXPECT_EQ(std::ssize(learnt.layers), kLayers);
    for (const LayerOutcome& layer : learnt.layers) EXPECT_LE(layer.after, layer.before);
    EXPECT_LT(learnt.mean_after(), learnt.mean_before());
    // The files are those of the same model, except for the numbers.
    EXPECT_TRUE(bytes(out) != bytes(out + "-plain"));
    EXPECT_EQ(bytes(out).size(), bytes(out + "-plain").size());
    EXPECT_EQ(config_of(out).experts, config_of(out + "-plain").experts);
    EXPECT_EQ(config_of(out).quantization, config_of(out + "-plain").quantization);
    const std::string card = bytes(out, "README.md");
    EXPECT_NE(card.find(reconstruction_text(learnt)), std::string::npos) << card;
    EXPECT_EQ(logits(path(out), {1, 2, 3}).rows(), 3);
    EXPECT_FALSE(fs::exists(path(out + ".partial")));
  }
};

TEST_F(MixturesReconstruct, InEveryForm) {
  for (const Form form :
       {Form::kMixed, Form::kBasis, Form::kNeurons, Form::kExperts, Form::kAuto}) {
    SCOPED_TRACE(form_name(form));
    expect_learns(learning(std::string(form_name(form)), form));
  }
  expect_learns(learning("uniform", Form::kNeurons, Allocate::kUniform));
}

TEST_F(MixturesReconstruct, WithSinksAndBiases) {
  use_family(io::Architecture::kGptOss, true);
  config_.experts = io::Experts{.count = 5, .active = 2, .width = kInner, .router_bias = true};
  tensors_ = model::random_tensors(config_, seed_);
  for (auto& [name, tensor] : tensors_) {  // else experts hardly matter beside the residual
    if (!name.ends_with("down_proj.weight")) continue;
    for (float& value : tensor.values) value *= 10.0f;
  }
  write_model(input_, tensors_);
  for (const Form form : {Form::kMixed, Form::kExperts}) {
    SCOPED_TRACE(form_name(form));
    CompressRequest wanted = learning(std::string(form_name(form)), form);
    wanted.calibration = {{{"text.txt", random_text(12000, 4)}}};  // several steps in a pass
    expect_learns(wanted);
  }
}

TEST_F(MixturesReconstruct, BeforeWeightsAreRounded) {
  for (const WeightFormats& bits : {kInt8, kInt4}) {
    for (const Form form : {Form::kMixed, Form::kExperts}) {
      CompressRequest wanted =
          learning(fmt::format("{}-{}", form_name(form), bits->linear.bits), form);
      SCOPED_TRACE(wanted.out.filename());
      wanted.weights = bits;
      expect_learns(wanted);
    }
  }
}

// A run that is killed at a layer leaves the files of the layers before it.
TEST_F(MixturesReconstruct, AKilledRunGoesOnToTheSameBytes) {
  run_well(learning("whole", Form::kMixed));
  const MeasureLoss stop = [](const fs::path&, const auto&) -> Result<MeasuredLoss> {
    return fail("stopped");
  };
  for (const int64_t kept : {0, 1, 3}) {
    ASSERT_FALSE(compress(learning("parts", Form::kMixed), backend_, silent_, {}, stop).ok());
    const fs::path work = path("parts.partial") / "work";
    for (int64_t layer = kept; layer < kLayers; ++layer) {
      EXPECT_TRUE(fs::remove(reconstructed_path(work, layer)));
    }
    run_well(learning("parts", Form::kMixed));
    for (const char* const file : {"model.safetensors", "config.json"}) {
      EXPECT_EQ(bytes("parts", file), bytes("whole", file)) << kept;
    }
    fs::remove_all(path("parts"));
  }
}

TEST_F(MixturesReconstruct, ThreadsChangeNothing) {
  expect_threads_change_nothing(learning("out", Form::kMixed));
}

}  // namespace
}  // namespace neuronmm::compress
