// Tests compressions whose layers learn.

#include "compress/compress_test.h"
#include "compress/reconstruction/reconstruction.h"
#include "io/model_folder.h"
#include "io/text_file.h"

namespace neuronmm::compress {
namespace {

class CompressReconstructs : public CompressTest {
 protected:
  CompressRequest learning(const std::string& out, Form form) const {
    CompressRequest wanted = request(out);
    wanted.form = form;
    wanted.reconstruct = {Reconstruct::Mode::kTokens, 1 << 20};
    if (form != Form::kUv) wanted.allocate = Allocate::kPredicted;
    return wanted;
  }
};

TEST_F(CompressReconstructs, InEveryForm) {
  for (const Form form :
       {Form::kUv, Form::kPivoted, Form::kNarrow, Form::kNeurons, Form::kMixed, Form::kAuto}) {
    const std::string out(form_name(form));
    SCOPED_TRACE(out);
    CompressRequest plain = learning(out + "-plain", form);
    plain.reconstruct = {};
    EXPECT_FALSE(run_well(plain).reconstruction);
    const CompressSummary summary = run_well(learning(out, form));
    ASSERT_TRUE(summary.reconstruction);
    EXPECT_EQ(std::ssize(summary.reconstruction->layers), kLayers);
    EXPECT_LT(summary.reconstruction->mean_after(), summary.reconstruction->mean_before());
    EXPECT_NE(bytes(out), bytes(out + "-plain"));
    // The files are those of the same model, except for the numbers.
    EXPECT_EQ(bytes(out).size(), bytes(out + "-plain").size());
    const std::string card = bytes(out, "README.md");
    EXPECT_NE(card.find(reconstruction_text(*summary.reconstruction)), std::string::npos) << card;
    EXPECT_EQ(logits(path(out), {1, 2, 3}).rows(), 3);
    EXPECT_FALSE(fs::exists(path(out + ".partial")));
  }
}

TEST_F(CompressReconstructs, BeforeWeightsAreRounded) {
  for (const WeightFormats& bits : {kInt8, kInt4}) {
    for (const Form form : {Form::kUv, Form::kMixed}) {
      const std::string out = fmt::format("{}-{}", form_name(form), bits->linear.bits);
      SCOPED_TRACE(out);
      CompressRequest wanted = learning(out, form);
      wanted.weights = bits;
      CompressRequest plain = wanted;
      plain.out = path(out + "-plain");
      plain.reconstruct = {};
      run_well(plain);
      ASSERT_TRUE(run_well(wanted).reconstruction);
      EXPECT_EQ(bytes(out).size(), bytes(out + "-plain").size());
      EXPECT_EQ(logits(path(out), {1, 2, 3}).rows(), 3);
    }
  }
}

// A run that is killed at a layer leaves the files of the layers before it.
TEST_F(CompressReconstructs, AKilledRunGoesOnToTheSameBytes) {
  run_well(learning("whole", Form::kMixed));
  const MeasureLoss stop = [](const fs::path&, const auto&) -> Result<MeasuredLoss> {
    return fail("stopped");
  };
  for (int64_t kept = 0; kept <= kLayers; ++kept) {
    ASSERT_FALSE(compress(learning("parts", Form::kMixed), backend_, silent_, {}, stop).ok());
    EXPECT_FALSE(fs::exists(path("parts")));
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

TEST_F(CompressReconstructs, IsOffByItselfWithLittleText) {
  CompressRequest wanted = learning("out", Form::kMixed);
  wanted.reconstruct = {Reconstruct::Mode::kAuto, 0};
  EXPECT_FALSE(run_well(wanted).reconstruction);
}

TEST_F(CompressReconstructs, NeedsAText) {
  CompressRequest wanted = request("out", Method::kSvd);
  wanted.reconstruct = {Reconstruct::Mode::kTokens, 1000};
  expect_refused(wanted, {"reconstruct 1000 needs calibration"});
}

}  // namespace
}  // namespace neuronmm::compress
