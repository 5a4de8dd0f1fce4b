// Tests the choice of form auto, with made-up measurements and against both forms made one by one.

#include "compress/sizes/form_choice.h"

#include <map>

#include "compress/compress_test.h"
#include "compress/sizes/held_out_divergence.h"

namespace neuronmm::compress {
namespace {

// Losses by form that stand in for measurements.
struct Measured {
  std::map<Form, double> losses;
  std::vector<Form> asked = {};
  MeasureForm measure() {
    return [this](Form form) -> Result<double> {
      asked.push_back(form);
      return losses.at(form);
    };
  }
};

std::vector<FormCandidate> predicted(double mixed, double pivoted) {
  return {{Form::kMixed, mixed, {}}, {Form::kPivoted, pivoted, {}}};
}

TEST(FormChoice, MeasurementsDecideWherePredictionsAreClose) {
  for (const double ratio : {0.51, 0.9, 1.0, 1.1, 1.99}) {
    for (const bool pivots : {false, true}) {
      Measured measured{{{Form::kMixed, 0.05}, {Form::kPivoted, pivots ? 0.04 : 0.06}}};
      const auto choice = choose_form(predicted(0.01, 0.01 * ratio), 100, measured.measure());
      ASSERT_TRUE(choice.ok());
      EXPECT_EQ(choice->taken().form, pivots ? Form::kPivoted : Form::kMixed) << ratio;
      EXPECT_EQ(measured.asked, (std::vector{Form::kMixed, Form::kPivoted}));
      EXPECT_EQ(choice->tokens, 100);
      EXPECT_EQ(choice->candidates[0].measured, 0.05);
      EXPECT_EQ(choice->candidates[1].measured, measured.losses.at(Form::kPivoted));
      EXPECT_NE(
          form_choice_text(*choice).find(pivots ? "pivoted, KL 0.04 on 100" : "mixed, KL 0.05"),
          std::string::npos)
          << form_choice_text(*choice);
    }
  }
}

TEST(FormChoice, PredictionsDecideWhereTheyAreFarApart) {
  for (const double ratio : {0.0, 0.49, 2.01, 50.0}) {
    Measured never;
    const auto choice = choose_form(predicted(0.01, 0.01 * ratio), 100, never.measure());
    EXPECT_EQ(choice->taken().form, ratio < 1.0 ? Form::kPivoted : Form::kMixed);
    EXPECT_TRUE(never.asked.empty());
    EXPECT_EQ(choice->tokens, 0);
    EXPECT_FALSE(choice->undecided);
  }
}

// The third prediction is close and the second is not, so the second is neither measured nor named.
TEST(FormChoice, OnlyCloseFormsAreMeasured) {
  std::vector<FormCandidate> candidates = predicted(0.01, 0.03);
  candidates.push_back({Form::kNeurons, 0.012, {}});
  Measured measured{{{Form::kMixed, 0.5}, {Form::kNeurons, 0.3}}};
  const auto choice = choose_form(candidates, 100, measured.measure());
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->taken().form, Form::kNeurons);
  EXPECT_EQ(measured.asked, (std::vector{Form::kMixed, Form::kNeurons}));
  EXPECT_FALSE(choice->candidates[1].measured);
  EXPECT_EQ(
      form_choice_text(*choice),
      "neurons, KL 0.3 on 100 held-out tokens where mixed has 0.5 (predicted 0.012 and 0.01)");
}

TEST(FormChoice, TheTextNamesAllThreeForms) {
  std::vector<FormCandidate> candidates = predicted(0.01, 0.011);
  candidates.push_back({Form::kNeurons, 0.012, {}});
  Measured measured{{{Form::kMixed, 0.5}, {Form::kPivoted, 0.6}, {Form::kNeurons, 0.5}}};
  EXPECT_EQ(form_choice_text(*choose_form(candidates, 100, measured.measure())),
            "mixed, KL 0.5 on 100 held-out tokens where pivoted has 0.6 and neurons has 0.5 "
            "(predicted 0.01, 0.011 and 0.012)");
  EXPECT_EQ(form_choice_text(*choose_form(candidates, 0, measured.measure())),
            "mixed by predicted loss, 0.01 nats per token where pivoted has 0.011 and neurons has "
            "0.012 (close, but there is no text to spare to measure on)");
}

TEST(FormChoice, WithoutTokensPredictionsDecideAndTheReportSaysSo) {
  Measured never;
  const auto choice = choose_form(predicted(0.010, 0.011), 0, never.measure());
  EXPECT_EQ(choice->taken().form, Form::kMixed);
  EXPECT_TRUE(never.asked.empty());
  EXPECT_NE(form_choice_text(*choice).find("no text to spare"), std::string::npos);
}

TEST(FormChoice, AFailedMeasurementIsAnError) {
  const auto choice =
      choose_form(predicted(0.01, 0.01), 100, [](Form) -> Result<double> { return fail("no"); });
  EXPECT_FALSE(choice.ok());
}

class FormAuto : public CompressTest {
 protected:
  CompressRequest asked(const std::string& out, Form form) const {
    CompressRequest request = CompressTest::request(out);
    request.form = form;
    request.allocate = Allocate::kPredicted;
    request.rule = {0.1, 4};  // predictions are close at this ratio
    request.calibration = {{{"text.txt", random_text(7000, 5)}}, 750};
    return request;
  }
  io::CompressionRecord record_of(const std::string& out) const {
    return *io::ModelConfig::load(path(out) / "config.json")->compression;
  }
};

// The weights are the same as if the form were requested by name, and the folder records the
// choice.
TEST_F(FormAuto, TheFormThatMeasuresLessIsWritten) {
  const CompressSummary summary = run_well(asked("auto", Form::kAuto));
  ASSERT_TRUE(summary.form);
  const FormChoice& choice = *summary.form;
  ASSERT_TRUE(choice.undecided);
  EXPECT_GE(choice.tokens, 2000);
  ASSERT_EQ(choice.candidates.size(), 2u);
  for (const FormCandidate& candidate : choice.candidates) EXPECT_GT(candidate.measured, 0.0);
  EXPECT_EQ(summary.plan.form, choice.taken().form);
  run_well(asked("named", choice.taken().form));
  EXPECT_EQ(bytes("auto"), bytes("named"));
  EXPECT_EQ(record_of("auto").form, form_name(choice.taken().form));
  EXPECT_EQ(record_of("auto").form_choice, form_choice_text(choice));
  EXPECT_NE(bytes("auto", "README.md").find(form_choice_text(choice)), std::string::npos);
  EXPECT_TRUE(record_of("named").form_choice.empty());
  EXPECT_FALSE(fs::exists(path("auto.partial")));
}

TEST_F(FormAuto, NothingIsMeasuredWithoutHeldOutText) {
  CompressRequest request = asked("auto", Form::kAuto);
  request.calibration = {{{"text.txt", text_}}};
  const CompressSummary summary = run_well(request);
  ASSERT_TRUE(summary.form);
  EXPECT_EQ(summary.form->tokens, 0);
  const std::vector<FormCandidate>& candidates = summary.form->candidates;
  EXPECT_EQ(summary.plan.form,
            candidates[1].predicted < candidates[0].predicted ? Form::kPivoted : Form::kMixed);
}

// With rounded weights, neurons alone are a candidate, and candidates are measured with rounded
// weights.
TEST_F(FormAuto, NeuronsAreACandidateForFewBits) {
  CompressRequest request = asked("auto", Form::kAuto);
  request.weights = quantized_formats(4);
  const CompressSummary summary = run_well(request);
  ASSERT_TRUE(summary.form);
  const std::vector<FormCandidate>& candidates = summary.form->candidates;
  ASSERT_EQ(candidates.size(), 3u);
  EXPECT_EQ(candidates[2].form, Form::kNeurons);
  EXPECT_GE(candidates[2].predicted, candidates[0].predicted);
  for (const FormCandidate& candidate : candidates) {
    ASSERT_TRUE(candidate.measured);
    EXPECT_GE(*candidate.measured, summary.form->taken().measured);
  }
  request.out = path("named");
  request.form = summary.form->taken().form;
  run_well(request);
  EXPECT_EQ(bytes("auto"), bytes("named"));
}

TEST_F(FormAuto, ThreadsChangeNothing) { expect_threads_change_nothing(asked("out", Form::kAuto)); }

TEST_F(FormAuto, InterruptedRunsResumeExactly) {
  int64_t calls = 0;
  backend_.on_attention = [&] { ++calls; };
  run_well(asked("whole", Form::kAuto));
  const int64_t all_calls = calls;
  int64_t stopped_runs = 0;
  for (int64_t stop = all_calls / 6; stop < all_calls - 10; stop += all_calls / 6) {
    SCOPED_TRACE(fmt::format("after {} of {}", stop, all_calls));
    calls = 0;
    backend_.on_attention = [&] { set_interrupted(++calls >= stop); };
    const auto stopped = run(asked("parts", Form::kAuto));
    set_interrupted(false);
    backend_.on_attention = [] {};
    if (!stopped.ok()) {
      EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
      ++stopped_runs;
      run_well(asked("parts", Form::kAuto));
    }
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    EXPECT_EQ(bytes("parts", "config.json"), bytes("whole", "config.json"));
    fs::remove_all(path("parts"));
  }
  EXPECT_GE(stopped_runs, 3);
}

// Interrupts the run after the second form has been measured. That measurement is the last to run
// attention here, because the chosen form has whole inputs and its down is not fitted on the text.
TEST_F(FormAuto, MeasurementsSurviveAnInterrupt) {
  int64_t calls = 0;
  backend_.on_attention = [&] { ++calls; };
  run_well(asked("whole", Form::kAuto));
  const int64_t last = calls;
  calls = 0;
  backend_.on_attention = [&] { set_interrupted(++calls >= last); };
  ASSERT_FALSE(run(asked("parts", Form::kAuto)).ok());
  set_interrupted(false);
  for (const char* form : {"mixed", "pivoted"}) {
    const fs::path trial = path("parts.partial") / "work" / fmt::format("trial-{}", form);
    EXPECT_TRUE(fs::exists(trial.string() + ".safetensors"));
    EXPECT_FALSE(fs::exists(trial));
  }
  calls = 0;
  backend_.on_attention = [&] { ++calls; };
  run_well(asked("parts", Form::kAuto));
  EXPECT_EQ(calls, 0);  // no form is measured again
  EXPECT_EQ(bytes("parts"), bytes("whole"));
}

}  // namespace
}  // namespace neuronmm::compress
