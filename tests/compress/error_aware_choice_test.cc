// Error-aware compression that is kept only where text that nothing was fitted to confirms it.

#include "compress/error_aware_choice.h"

#include <cmath>

#include "compress_test.h"

namespace neuronmm::compress {
namespace {

class ErrorAwareAuto : public CompressTest {
 protected:
  // Half of the text is calibrated on.
  CompressRequest asked(const std::string& out, Form form) const {
    CompressRequest request =
        CompressTest::request(out, form == Form::kUv ? Method::kErrorAware : Method::kWhitened);
    request.form = form;
    request.rule = {0.4, 4, Align::kNearest};
    if (form != Form::kUv) request.allocate = Allocate::kPredicted;
    request.calibration = {{{"text.txt", random_text(12000, 5)}}, 1500};
    return request;
  }
  CompressRequest automatic(const std::string& out, Form form) const {
    CompressRequest request = asked(out, form);
    request.error_aware_if_better = true;
    return request;
  }
  std::vector<std::vector<text::TokenId>> held_out(const CompressRequest& request) const {
    const auto tokenizer = text::Tokenizer::load(input_.path());
    const auto text = calibration_sequences(*tokenizer, request.calibration->texts,
                                            request.calibration->max_tokens, config_);
    EXPECT_TRUE(text->has_held_out);
    return text->held_out;
  }
  double divergence(const fs::path& folder,
                    const std::vector<std::vector<text::TokenId>>& sequences) {
    double sum = 0.0;
    int64_t rows = 0;
    for (const auto& sequence : sequences) {
      const Matrix dense = logits(input_.path(), sequence), other = logits(folder, sequence);
      for (int64_t t = 0; t < dense.rows(); ++t, ++rows) {
        double sum_a = 0.0, sum_b = 0.0;
        for (int64_t i = 0; i < dense.columns(); ++i) {
          sum_a += std::exp(double{dense.row(t)[i]});
          sum_b += std::exp(double{other.row(t)[i]});
        }
        for (int64_t i = 0; i < dense.columns(); ++i) {
          const double a = dense.row(t)[i], b = other.row(t)[i];
          sum += std::exp(a) / sum_a * (a - b - std::log(sum_a) + std::log(sum_b));
        }
      }
    }
    return sum / static_cast<double>(rows);
  }
};

TEST_F(ErrorAwareAuto, TheBetterOfBothIsWritten) {
  for (const Form form : {Form::kUv, Form::kPivoted, Form::kNeurons, Form::kMixed}) {
    SCOPED_TRACE(form_name(form));
    CompressRequest with = asked("with", form), without = asked("without", form);
    with.error_aware = form != Form::kUv;
    without.method = Method::kWhitened;
    run_well(with);
    run_well(without);
    const CompressRequest request = automatic("auto", form);
    const CompressSummary summary = run_well(request);
    ASSERT_TRUE(summary.error_aware);
    const ErrorAwareChoice& choice = *summary.error_aware;
    const auto sequences = held_out(request);
    int64_t tokens = 0;
    for (const auto& sequence : sequences) tokens += std::ssize(sequence);
    EXPECT_EQ(choice.tokens, tokens);
    EXPECT_GE(tokens, 2000);
    const double kl_with = divergence(path("with"), sequences),
                 kl_without = divergence(path("without"), sequences);
    EXPECT_NEAR(choice.with, kl_with, 1e-3 * kl_with);
    EXPECT_NEAR(choice.without, kl_without, 1e-3 * kl_without);
    EXPECT_EQ(choice.taken(), kl_with < kl_without);
    EXPECT_EQ(bytes("auto"), bytes(choice.taken() ? "with" : "without"));
    const auto config = io::ModelConfig::load(path("auto") / "config.json");
    EXPECT_EQ(config->compression->method,
              form == Form::kUv && choice.taken() ? "error-aware" : "whitened");
    for (const std::string out : {"with", "without", "auto"}) fs::remove_all(path(out));
  }
}

// The text that error-aware was fitted to would always speak for it.
TEST_F(ErrorAwareAuto, IsNotTriedWithoutTextToSpare) {
  CompressRequest request = automatic("auto", Form::kMixed);
  request.calibration = {{{"text.txt", text_}}};
  const CompressSummary summary = run_well(request);
  ASSERT_TRUE(summary.error_aware);
  EXPECT_EQ(summary.error_aware->tokens, 0);
  EXPECT_FALSE(summary.error_aware->taken());
  request.error_aware_if_better = false;
  request.out = path("without");
  run_well(request);
  EXPECT_EQ(bytes("auto"), bytes("without"));
}

TEST_F(ErrorAwareAuto, InterruptedRunsResumeExactly) {
  for (const Form form : {Form::kUv, Form::kMixed}) {
    int64_t calls = 0;
    backend_.on_attention = [&] { ++calls; };
    run_well(automatic("whole", form));
    const int64_t all_calls = calls;
    for (int64_t stop = all_calls / 7; stop < all_calls - 10; stop += all_calls / 5) {
      SCOPED_TRACE(fmt::format("{} after {} of {}", form_name(form), stop, all_calls));
      calls = 0;
      backend_.on_attention = [&] { set_interrupted(++calls >= stop); };
      const auto stopped = run(automatic("parts", form));
      set_interrupted(false);
      ASSERT_FALSE(stopped.ok());
      EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
      backend_.on_attention = [] {};
      run_well(automatic("parts", form));
      EXPECT_EQ(bytes("parts"), bytes("whole"));
      fs::remove_all(path("parts"));
    }
    fs::remove_all(path("whole"));
  }
}

}  // namespace
}  // namespace neuronmm::compress
