// Tests whole runs of `fit` on tiny random models: the written model must keep to the budget and be
// as predicted.

#include "fit/fit.h"

#include <cmath>

#include "compress/compress_test.h"
#include "cpu/backend.h"
#include "fit/unfinished_output.h"
#include "io/model_config.h"
#include "io/text_file.h"
#include "ops/forwarding_backend.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::fit {
namespace {

namespace fs = std::filesystem;

// A CPU whose clock runs a thousand times as fast. Measurements last until enough time has passed
// on the clock, so that they take as few rounds as possible.
class QuickBackend : public ops::ForwardingBackend {
 public:
  QuickBackend() : ForwardingBackend(cpu::make_backend()) {}
  double clock_seconds() const override { return 1000 * ForwardingBackend::clock_seconds(); }
};

class Fit : public compress::CompressTest {
 protected:
  // The embeddings are tied, because a separate table would be most of such a small model, and it
  // is never rounded.
  void SetUp() override {
    config_.tie_word_embeddings = true;
    config_.num_hidden_layers = 2;
    tensors_ = model::random_tensors(config_, 20261123);
    CompressTest::SetUp();
  }
  FitRequest request(const std::string& out, const Budget& budget) const {
    FitRequest request;
    request.model = input_.path();
    request.out = path(out);
    request.budget = budget;
    request.calibration = {{{"text.txt", text_}}, 250};
    request.sensitivities = path("sensitivities");
    request.block = 8;
    request.force = true;
    return request;
  }
  Result<FitResult> run(const FitRequest& request) {
    const Device device = {
        [] { return Result<std::unique_ptr<ops::Backend>>(std::make_unique<QuickBackend>()); },
        false};
    return fit(request, device, backend_, silent_);
  }
  FitResult run_or_throw(const FitRequest& request) {
    auto result = run(request);
    if (!result.ok()) throw std::runtime_error(result.error().message);
    return std::move(result).value();
  }
  void expect_refused(const FitRequest& request, std::initializer_list<std::string> words) {
    const auto result = run(request);
    ASSERT_FALSE(result.ok());
    for (const std::string& word : words) {
      EXPECT_NE(result.error().message.find(word), std::string::npos)
          << "no \"" << word << "\" in: " << result.error().message;
    }
  }
  double dense_bytes() { return static_cast<double>(size_of(input_.path())); }
  int64_t size_of(const fs::path& folder) {
    const auto checkpoint = io::Checkpoint::open(folder);
    return checkpoint.ok() ? checkpoint->size_bytes() : -1;
  }
  // Returns the divergence from all logits, in fp64, of the sequences that the result was measured
  // on.
  double divergence_of(const fs::path& folder) {
    const auto tokenizer = text::Tokenizer::load(input_.path());
    const auto text =
        compress::calibration_sequences(*tokenizer, {{"text.txt", text_}}, 250, config_);
    double sum = 0.0;
    int64_t rows = 0;
    for (const auto& sequence : text->measured) {
      const Matrix dense = logits(input_.path(), sequence), other = logits(folder, sequence);
      for (int64_t i = 0; i + 1 < dense.rows(); ++i, ++rows) sum += row_divergence(dense, other, i);
    }
    return sum / static_cast<double>(rows);
  }

 private:
  static double row_divergence(const Matrix& a, const Matrix& b, int64_t row) {
    const auto log_sum = [&](const Matrix& m) {
      double sum = 0.0;
      for (int64_t j = 0; j < m.columns(); ++j) sum += std::exp(double{m.view().row(row)[j]});
      return std::log(sum);
    };
    const double of_a = log_sum(a), of_b = log_sum(b);
    double sum = 0.0;
    for (int64_t j = 0; j < a.columns(); ++j) {
      const double p = a.view().row(row)[j] - of_a, q = b.view().row(row)[j] - of_b;
      sum += std::exp(p) * (p - q);
    }
    return sum;
  }
};

Budget at_most(double limit) {
  return {.bytes = limit, .decode = {}, .prefill = {}, .divergence = {}};
}

// Sizes must be predicted to the byte, for models that are dense, rounded, and both narrowed and
// rounded.
TEST_F(Fit, KeepsToABudgetOfBytes) {
  const double dense = dense_bytes();
  bool narrowed = false, several = false;
  for (const double share : {0.5, 0.24, 0.17, 0.12}) {
    SCOPED_TRACE(share);
    const FitResult result = run_or_throw(request("out", at_most(share * dense)));
    EXPECT_EQ(result.dense[kBytes], dense);
    const auto size = static_cast<double>(size_of(path("out")));
    EXPECT_LE(size, share * dense);
    EXPECT_NEAR(size, result.choice.predicted[kBytes], 0.5);
    EXPECT_EQ(size, static_cast<double>(result.measured->bytes));
    EXPECT_LE(result.choice.bound, result.choice.predicted[kLoss]);
    narrowed = narrowed || narrows(result.choice);
    const auto config = io::ModelConfig::load(path("out") / "config.json");
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->quantization.has_value(), result.choice.rounded);
    several = several || (config->quantization && config->quantization->exceptions.size() > 1);
  }
  EXPECT_TRUE(narrowed);
  EXPECT_TRUE(several) << "no model has matrices of several formats";
}

TEST_F(Fit, MeasuresWhatItHasWritten) {
  const FitResult result = run_or_throw(request("out", at_most(0.2 * dense_bytes())));
  const double expected = divergence_of(path("out"));
  // The backend does not round activations, and logits in fp32 have an error of about 1e-6 of
  // their size.
  EXPECT_NEAR(result.measured->divergence.value, expected, 1e-4 * expected);
}

// More bits must never lose more. The search must never lose more than a single format of the same
// size.
TEST_F(Fit, LosesNoMoreThanSingleFormats) {
  const FitResult plan = [&] {
    FitRequest request = this->request("", at_most(0.3 * dense_bytes()));
    request.plan_only = true;
    return run_or_throw(request);
  }();
  ASSERT_GE(plan.uniform_models.size(), 4u);
  EXPECT_LT(plan.uniform_models[0].predicted[kLoss], plan.uniform_models[1].predicted[kLoss]);
  EXPECT_LT(plan.uniform_models[1].predicted[kLoss], plan.uniform_models[2].predicted[kLoss]);
  EXPECT_GT(plan.uniform_models[0].predicted[kBytes], plan.uniform_models[1].predicted[kBytes]);
  EXPECT_FALSE(fs::exists(path("") / "config.json"));
  for (const Candidate& single : plan.uniform_models) {
    if (single.predicted[kBytes] >= plan.dense[kBytes]) continue;
    FitRequest request = this->request("", at_most(single.predicted[kBytes]));
    request.plan_only = true;
    const FitResult found = run_or_throw(request);
    EXPECT_LE(found.choice.predicted[kLoss], single.predicted[kLoss] * (1 + 1e-12)) << single.name;
  }
  for (size_t i = 1; i < plan.front.size(); ++i) {
    EXPECT_LE(plan.front[i].predicted[kLoss], plan.front[i - 1].predicted[kLoss] * (1 + 1e-9));
  }
}

TEST_F(Fit, MinimizesBytesUnderALimitOfLoss) {
  FitRequest any = request("", at_most(0.2 * dense_bytes()));
  any.plan_only = true;
  const Quantities small = run_or_throw(any).choice.predicted;
  Budget budget;
  budget.divergence = small[kLoss];
  FitRequest least = request("", budget);
  least.plan_only = true;
  const FitResult result = run_or_throw(least);
  EXPECT_LE(result.choice.predicted[kLoss], small[kLoss]);
  EXPECT_LE(result.choice.bound, small[kBytes]);
  EXPECT_LE(result.choice.predicted[kBytes],
            1.02 * small[kBytes]);  // greedy steps may leave this much
  least.budget.divergence = 1e-9;
  expect_refused(least, {"meets the budget as it is"});
}

TEST_F(Fit, NamesTheNearestBudgetThatIsPossible) {
  expect_refused(request("out", at_most(1000)),
                 {"1000 bytes", "out of reach", "smallest form and format"});
  Budget fast;
  fast.decode = 1e6;
  expect_refused(request("out", fast), {"decoding", "out of reach", "smallest form and format"});
  expect_refused(request("out", at_most(1e12)), {"meets the budget as it is"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(Fit, RefusesOtherModels) {
  run_or_throw(request("out", at_most(0.3 * dense_bytes())));
  FitRequest rounded = request("again", at_most(1e5));
  rounded.model = path("out");
  expect_refused(rounded, {"out", "fit the original model"});
  FitRequest others = request("again", at_most(1e5));
  const std::string other = compress::random_text(1000, 5);
  others.calibration = {{{"other.txt", other}}, 400};
  expect_refused(others, {"sensitivities"});
}

// An interrupted run must keep its measurements, and the resumed run must give the same bytes as an
// undisturbed one.
TEST_F(Fit, AResumedRunGivesTheSameBytes) {
  const Budget budget = at_most(0.2 * dense_bytes());
  run_or_throw(request("undisturbed", budget));
  fs::remove_all(path("sensitivities"));
  int interrupts = 0;
  for (int stop = 4;; stop += 8) {
    int calls = 0;
    backend_.on_attention = [&] { set_interrupted(++calls == stop || interrupted()); };
    const auto result = run(request("out", budget));
    set_interrupted(false);
    if (result.ok()) break;
    ASSERT_EQ(result.error().kind, Error::Kind::kInterrupted) << result.error().message;
    EXPECT_NE(result.error().message.find("; run the same command again to go on"),
              std::string::npos)
        << result.error().message;
    ++interrupts;
    ASSERT_LT(interrupts, 1000);
  }
  EXPECT_GT(interrupts, 3);
  EXPECT_EQ(compress::CompressTest::bytes("out"), compress::CompressTest::bytes("undisturbed"));
}

TEST_F(Fit, NeverDeletesTheWorkOfAnotherBudgetOrCommandUnlessForced) {
  const Budget budget = at_most(0.2 * dense_bytes());
  run_or_throw(request("first", budget));
  const fs::path work = path("out.partial") / "work";
  fs::create_directories(work);
  ASSERT_TRUE(io::write_text_file(path("out.partial") / "neuronmm.json",
                                  R"({"neuronmm": "unfinished output"})")
                  .ok());
  ASSERT_TRUE(io::write_text_file(work / "layer-0", "done").ok());
  FitRequest unforced = request("out", budget);
  unforced.force = false;
  expect_refused(unforced, {"out.partial", "unfinished work", "another output folder"});
  EXPECT_TRUE(fs::exists(work / "layer-0"));
  run_or_throw(request("out", budget));
  EXPECT_FALSE(fs::exists(work));
  EXPECT_FALSE(fs::exists(path("sensitivities") / "output.json"));
  EXPECT_EQ(compress::CompressTest::bytes("out"), compress::CompressTest::bytes("first"));
}

// The bits of the embedding table change which model the search chooses.
TEST_F(Fit, DoesNotClaimTheWorkOfOtherEmbeddingBits) {
  FitRequest first = request("out", at_most(0.2 * dense_bytes()));
  first.force = false;
  fs::create_directories(first.sensitivities);
  ASSERT_TRUE(claim_output(first).ok());
  const fs::path work = path("out.partial") / "work";
  fs::create_directories(work);
  ASSERT_TRUE(io::write_text_file(path("out.partial") / "neuronmm.json",
                                  R"({"neuronmm": "unfinished output"})")
                  .ok());
  ASSERT_TRUE(io::write_text_file(work / "layer-0", "done").ok());
  EXPECT_TRUE(claim_output(first).ok());
  FitRequest other = first;
  other.embedding_bits = 8;
  EXPECT_FALSE(claim_output(other).ok());
}

// Older programs measured a tied table as a head only, and saved that under another name.
TEST_F(Fit, MeasuresATiedTableThatOlderVersionsMeasuredAsAHead) {
  const Budget budget = at_most(0.2 * dense_bytes());
  run_or_throw(request("undisturbed", budget));
  const fs::path kept = path("sensitivities") / "rounding.json";
  const auto text = io::read_text_file(kept, 1 << 20);
  ASSERT_TRUE(text.ok());
  std::string older = *text;
  const size_t at = older.find("\"table\"");
  ASSERT_NE(at, std::string::npos);
  ASSERT_TRUE(io::write_text_file(kept, older.replace(at, 7, "\"head\"")).ok());
  run_or_throw(request("out", budget));
  EXPECT_EQ(compress::CompressTest::bytes("out"), compress::CompressTest::bytes("undisturbed"));
}

// A table that is not the LM head is most of a small model, so that a small budget rounds it.
TEST_F(Fit, RoundsATableOfItsOwn) {
  config_.tie_word_embeddings = false;
  tensors_ = model::random_tensors(config_, 20261124);
  write_model(input_, tensors_);
  FitRequest request = this->request("out", at_most(0.2 * dense_bytes()));
  const FitResult result = run_or_throw(request);
  EXPECT_NE(result.choice.table, kAsIs);
  EXPECT_EQ(static_cast<double>(size_of(path("out"))), result.choice.predicted[kBytes]);
  const auto config = io::ModelConfig::load(path("out") / "config.json");
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config->quantization->exceptions.contains("embed_tokens"));
  // A caller may choose the bits.
  request.embedding_bits = 8;
  request.budget = at_most(0.3 * dense_bytes());
  const FitResult chosen = run_or_throw(request);
  EXPECT_EQ(chosen.choice.table, 0u);
}

// Without narrower MLPs the search finds what rounding alone can reach, so nothing is measured that
// takes long.
TEST_F(Fit, MeasuresShapesOnlyIfRoundingIsNotEnough) {
  const fs::path shapes = path("sensitivities") / "shapes-8";
  run_or_throw(request("out", at_most(0.3 * dense_bytes())));
  EXPECT_TRUE(fs::is_empty(shapes));
  run_or_throw(request("out", at_most(0.12 * dense_bytes())));
  EXPECT_FALSE(fs::is_empty(shapes));
}

TEST_F(Fit, RefusesDamagedSensitivities) {
  const Budget budget = at_most(0.2 * dense_bytes());
  run_or_throw(request("out", budget));
  ASSERT_TRUE(io::write_text_file(path("sensitivities") / "rounding.json", "{\"head\": [1]}").ok());
  expect_refused(request("out", budget), {"rounding.json", "head"});
  fs::remove(path("sensitivities") / "rounding.json");
  ASSERT_TRUE(
      io::write_text_file(path("sensitivities") / "correction.json", "{\"shapes\": -1}").ok());
  expect_refused(request("out", budget), {"correction.json", "shapes"});
}

}  // namespace
}  // namespace neuronmm::fit
