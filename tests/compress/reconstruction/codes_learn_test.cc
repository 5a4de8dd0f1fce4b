// Tests rounded models whose layers learn their codes: dense ones, compressed ones and mixtures.

#include <filesystem>
#include <string>

#include "compress/mixture_fixture.h"
#include "compress/quantize.h"
#include "compress/reconstruction/training_layers.h"
#include "io/quantization.h"
#include "model/tensor_specs.h"

namespace neuronmm::compress {
namespace {

class CodesLearn : public MixtureTest {
 protected:
  QuantizeRequest learning(const std::string& out,
                           const QuantizedFormats& formats = quantized_formats(4)) const {
    QuantizeRequest request = {.model = model_.empty() ? input_.path() : model_,
                               .out = path(out),
                               .formats = formats,
                               .rounding = Rounding::kGptq,
                               .smooth = true};
    request.calibration = {{{"text.txt", random_text(4000, 4)}}};
    request.reconstruct = {Reconstruct::Mode::kTokens, 1 << 20};
    return request;
  }
  static QuantizeRequest without(QuantizeRequest request) {
    request.out += "-plain";
    request.reconstruct = {};
    return request;
  }
  QuantizeSummary quantize_well(const QuantizeRequest& request) {
    auto summary = quantize(request, backend_, silent_);
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
    return std::move(summary).value();
  }
  void expect_refused(const QuantizeRequest& request, const std::string& words) {
    const auto summary = quantize(request, backend_, silent_);
    ASSERT_FALSE(summary.ok());
    EXPECT_NE(summary.error().message.find(words), std::string::npos) << summary.error().message;
    EXPECT_FALSE(fs::exists(request.out));
  }
  // Runs the request with and without learning. Expects lower errors, other codes and norms of the
  // layers, and the same scales, groups and tensors outside the layers.
  void expect_learns(const QuantizeRequest& wanted) {
    EXPECT_FALSE(quantize_well(without(wanted)).reconstruction);
    const QuantizeSummary summary = quantize_well(wanted);
    ASSERT_TRUE(summary.reconstruction);
    EXPECT_EQ(std::ssize(summary.reconstruction->layers), kLayers);
    for (const LayerOutcome& layer : summary.reconstruction->layers) {
      EXPECT_GT(layer.before, 0.0);
      EXPECT_LE(layer.after, layer.before);
    }
    const bool gained =
        summary.reconstruction->mean_after() < summary.reconstruction->mean_before();
    EXPECT_TRUE(gained || wanted.formats.linear.bits == 6);
    expect_same_grids(wanted.out.filename(), gained);
    expect_said(wanted.out.filename(), *summary.reconstruction);
    EXPECT_EQ(logits(wanted.out, {1, 2, 3}).rows(), 3);
    EXPECT_FALSE(fs::exists(wanted.out.string() + ".partial"));
  }
  void expect_same_grids(const std::string& out, bool changed) {
    const auto before = io::Checkpoint::open(path(out + "-plain")).value();
    const auto after = io::Checkpoint::open(path(out)).value();
    ASSERT_EQ(before.tensors().size(), after.tensors().size());
    int64_t codes = 0, norms = 0;
    for (const auto& [name, tensor] : before.tensors()) {
      const TensorView& other = after.tensors().at(name);
      ASSERT_EQ(other.dtype, tensor.dtype) << name;
      ASSERT_EQ(other.shape, tensor.shape) << name;
      if (std::equal(tensor.data, tensor.data + tensor.size_bytes(), other.data)) continue;
      EXPECT_NE(name.find("layers."), std::string::npos) << name;
      EXPECT_FALSE(name.ends_with(io::kScaleEnding) || name.ends_with(io::kGroupEnding)) << name;
      EXPECT_NE(tensor.dtype, DType::kI8) << name;
      EXPECT_EQ(name.find("router"), std::string::npos) << name;
      codes += tensor.dtype == DType::kU8 ? 1 : 0;
      norms += model::is_norm(name) ? 1 : 0;
    }
    EXPECT_EQ(codes > 0, changed);
    EXPECT_EQ(norms > 0, changed);
  }
  // Expects that the record and the card say what the layers have learnt.
  void expect_said(const std::string& out, const ReconstructionSummary& learnt) {
    io::Quantization record = *config_of(out).quantization;
    EXPECT_EQ(record.reconstruction_tokens, learnt.tokens);
    record.reconstruction_tokens = 0;
    EXPECT_EQ(record, *config_of(out + "-plain").quantization);
    EXPECT_NE(bytes(out, "README.md").find(reconstruction_text(learnt)), std::string::npos);
  }

  fs::path model_;  // empty: the one of the fixture
};

// A tiny model of 6 bits has little to learn, and its layers may stay as they are.
TEST_F(CodesLearn, OnTheirGrid) {
  expect_learns(learning("four"));
  expect_learns(learning("wide", quantized_formats(4, 32, 4, 4)));
  QuantizeRequest six = learning("six", quantized_formats(6));
  six.calibration = {{{"text.txt", random_text(8000, 4)}}};  // several steps in a pass
  expect_learns(six);
}

TEST_F(CodesLearn, WithBiases) {
  use_family(io::Architecture::kLlama, true);
  write_model(input_, tensors_);
  expect_learns(learning("out"));
}

// Factors learn, too. Maps of pivots have 8 bits and stay.
TEST_F(CodesLearn, OfCompressedModels) {
  for (const Form form : {Form::kUv, Form::kMixed, Form::kNarrow}) {
    SCOPED_TRACE(form_name(form));
    CompressRequest compressed = request(fmt::format("floats-{}", form_name(form)));
    compressed.form = form;
    if (form != Form::kUv) compressed.allocate = Allocate::kPredicted;
    run_well(compressed);
    model_ = compressed.out;
    expect_learns(learning(std::string(form_name(form))));
  }
}

TEST_F(CodesLearn, OfMixturesExceptTheRouter) {
  use_mixture(4, 2);
  expect_learns(learning("out"));
}

// A run that is killed at a layer leaves the files of the layers before it.
TEST_F(CodesLearn, AKilledRunGoesOnToTheSameBytes) {
  quantize_well(learning("whole"));
  const auto stop = [](const QuantizeSummary&) -> Status { return fail("stopped"); };
  for (const int64_t kept : {0, 1, 3}) {
    ASSERT_FALSE(quantize(learning("parts"), backend_, silent_, {}, nullptr, stop).ok());
    EXPECT_FALSE(fs::exists(path("parts")));
    const fs::path work = path("parts.partial") / "work";
    for (int64_t layer = kept; layer < kLayers; ++layer) {
      EXPECT_TRUE(fs::remove(reconstructed_path(work, layer)));
    }
    quantize_well(learning("parts"));
    for (const char* const file : {"model.safetensors", "config.json"}) {
      EXPECT_TRUE(bytes("parts", file) == bytes("whole", file)) << kept << " " << file;
    }
    fs::remove_all(path("parts"));
  }
}

TEST_F(CodesLearn, ThreadsChangeNothing) {
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    quantize_well(learning(std::to_string(threads)));
  }
  EXPECT_TRUE(bytes("1") == bytes("3"));
}

TEST_F(CodesLearn, AreOffByThemselvesWithLittleText) {
  QuantizeRequest wanted = learning("out");
  wanted.reconstruct = {Reconstruct::Mode::kAuto, 0};
  EXPECT_FALSE(quantize_well(wanted).reconstruction);
  EXPECT_EQ(config_of("out").quantization->reconstruction_tokens, 0);
}

TEST_F(CodesLearn, NeedATextAndFewBits) {
  expect_refused(learning("out", quantized_formats(8)), "is for bits 6 and 4, found 8");
  QuantizeRequest wanted = learning("out");
  wanted.rounding = Rounding::kNearest;
  expect_refused(wanted, "needs rounding gptq");
  wanted = learning("out");
  wanted.calibration.reset();
  wanted.statistics = path("statistics");
  expect_refused(wanted, "needs calibration, from which layers learn; statistics are not enough");
}

}  // namespace
}  // namespace neuronmm::compress
