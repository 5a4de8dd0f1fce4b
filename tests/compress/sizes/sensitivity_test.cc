// Tests measured sensitivities against models that have the truncated matrix, and whole
// compressions that allocate ranks by them.

#include "compress/sizes/sensitivity.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "compress/compress_test.h"
#include "compress/expected_divergence.h"
#include "compress/factors/factorize.h"
#include "compress/output/factors_file.h"
#include "compress/sizes/dense_reference.h"
#include "compress/statistics/layer_grams.h"

namespace neuronmm::compress {
namespace {

constexpr int64_t kBlock = 4, kFloor = 12;  // break-even 21.3
constexpr int64_t kMatrixParameters = kHidden * kInner, kRankParameters = kHidden + kInner;

class Sensitivity : public CompressTest {
 protected:
  CompressRequest request(const std::string& out, Method method = Method::kWhitened) const {
    CompressRequest request = CompressTest::request(out, method);
    request.allocate = Allocate::kMeasured;
    request.calibration = {{{"text.txt", text_}}};
    return request;
  }
  void expect_refused(const CompressRequest& request, std::initializer_list<std::string> words) {
    CompressTest::expect_refused(request, words);
    EXPECT_FALSE(fs::exists(request.out.string() + ".partial"));
  }
};

TEST(MeanDivergence, MatchesItsDefinition) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  Matrix a(5, 70), b(5, 70);
  for (int64_t i = 0; i < 5 * 70; ++i) {
    a.data()[i] = normal(random);
    b.data()[i] = a.data()[i] + 0.1f * normal(random);
  }
  long double mean = 0;
  for (int64_t i = 0; i < 5; ++i) mean += expected_divergence(a.row(i), b.row(i), 70) / 5;
  EXPECT_NEAR(mean_divergence(a.view(), b.view()), static_cast<double>(mean), 1e-14);
  EXPECT_NEAR(mean_divergence(a.view(), a.view()), 0.0, 1e-15);
  for (int64_t i = 0; i < 70; ++i) b.row(2)[i] += 64.0f;  // a constant changes no probability
  EXPECT_NEAR(mean_divergence(a.view(), b.view()), static_cast<double>(mean), 1e-5);
}

TEST(ProbeSequences, AreBeginningsOfEvenlySpacedSequences) {
  CalibrationSequences text;
  for (int i = 0; i < 100; ++i) text.sequences.emplace_back(300, i);
  const auto probes = probe_sequences(text);
  ASSERT_EQ(probes.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(probes[i].size(), 128u);
    EXPECT_EQ(probes[i].front(), static_cast<text::TokenId>(25 * i));
  }
  text.sequences.assign(100, std::vector<text::TokenId>(10));
  EXPECT_EQ(probe_sequences(text).size(), 52u);
  text.sequences.assign(1, std::vector<text::TokenId>(7));
  EXPECT_EQ(probe_sequences(text).front().size(), 7u);
}

// Returns the best plain or whitened approximation of one rank, computed for that rank alone.
DoubleMatrix truncated(const DoubleMatrix& w_t, MlpMatrix matrix, const LayerGrams* grams,
                       int64_t rank) {
  const auto factors = [&]() -> Result<Factors> {
    if (grams == nullptr) return factorize_plain(w_t, rank, DType::kF64);
    if (matrix == MlpMatrix::kDown) {
      return factorize_by_output(w_t, grams->out, rank, DType::kF64);
    }
    return factorize_whitened(w_t, whitening_root(grams->in).value(), rank, DType::kF64);
  }();
  return multiply(factors->v_t, Transpose::kNo, factors->u_t, Transpose::kNo);
}

TEST_F(Sensitivity, MatchesAModelWithTheTruncatedMatrix) {
  const auto checkpoint = io::Checkpoint::open(input_.path());
  const auto tokenizer = text::Tokenizer::load(input_.path());
  ASSERT_TRUE(checkpoint.ok() && tokenizer.ok());
  const auto text = calibration_sequences(*tokenizer, {{"text", text_}}, 1000, config_);
  ASSERT_TRUE(text.ok());
  std::vector<int64_t> ranks;
  for (int64_t layer = 0; layer < kLayers; ++layer) ranks.insert(ranks.end(), {kRank, 0, kRank});
  const Plan plan = plan_of_ranks(config_, ranks, std::nullopt);
  fs::create_directories(path("grams"));
  const auto gathered =
      gather_layer_grams({*checkpoint, config_, backend_, &*text, silent_}, path("grams"));
  ASSERT_TRUE(gathered.ok());
  const GramSource& grams = *gathered;
  const auto probes = probe_sequences(*text);
  std::vector<Matrix> dense;
  for (const auto& tokens : probes) dense.push_back(logits(input_.path(), tokens));
  for (const bool whitened : {false, true}) {
    const auto measured = measure_sensitivity({.checkpoint = *checkpoint,
                                               .config = config_,
                                               .backend = backend_,
                                               .text = &*text,
                                               .progress = silent_},
                                              plan, kBlock, whitened ? grams : GramSource());
    ASSERT_TRUE(measured.ok()) << measured.error().message;
    ASSERT_EQ(measured->size(), static_cast<size_t>(2 * kLayers));
    size_t next = 0;
    for (const MatrixPlan& matrix : plan.matrices) {
      if (matrix.rank == 0) continue;
      const MatrixSensitivity& sensitivity = measured->at(next++);
      EXPECT_EQ(sensitivity.singular_values.size(), static_cast<size_t>(kHidden));
      const LayerGrams layer_grams = grams(matrix.layer).value();
      for (const int64_t rank : {kRank, kFloor}) {
        SCOPED_TRACE(fmt::format("whitened {} layer {} {} rank {}", whitened, matrix.layer,
                                 matrix_name(matrix.matrix), rank));
        const std::string name = fmt::format("model.layers.{}.mlp.{}_proj.weight", matrix.layer,
                                             matrix_name(matrix.matrix));
        model::TestTensors changed = tensors_;
        const DoubleMatrix w = truncated(to_double_matrix(checkpoint->tensors().at(name)),
                                         matrix.matrix, whitened ? &layer_grams : nullptr, rank);
        for (int64_t i = 0; i < w.rows(); ++i) {
          for (int64_t j = 0; j < w.columns(); ++j) {
            changed.at(name).values[static_cast<size_t>(i * w.columns() + j)] =
                static_cast<float>(w(i, j));
          }
        }
        model::ModelFolder folder;
        write_model(folder, changed);
        long double sum = 0;
        int64_t rows = 0;
        float largest = 0;
        for (size_t s = 0; s < probes.size(); ++s) {
          const Matrix other = logits(folder.path(), probes[s]);
          for (int64_t t = 0; t < other.rows(); ++t, ++rows) {
            sum += expected_divergence(dense[s].row(t), other.row(t), 256);
            for (int64_t i = 0; i < 256; ++i) {
              largest = std::max(largest, std::abs(other.row(t)[i]));
            }
          }
        }
        // The models have two fp32 factors or their fp32 product; compress_test.cc explains the
        // error. The divergence changes by at most twice the change of the logits.
        const double bound = 4 * 0x1p-24 * (kHidden + kInner) * kMatrices * largest;
        const double wanted = static_cast<double>(sum / static_cast<long double>(rows));
        EXPECT_GT(wanted, 10 * bound);
        EXPECT_NEAR(rank == kRank ? sensitivity.uniform_divergence : sensitivity.floor_divergence,
                    wanted, bound);
      }
    }
  }
}

TEST_F(Sensitivity, EveryMethodAllocatesWithinTheParametersOfUniformRanks) {
  for (const Method method : {Method::kWhitened, Method::kSvd}) {
    for (const WeightFormats& weights : {kOriginal, kInt8, kInt4}) {
      SCOPED_TRACE(fmt::format("{} {}", method_name(method), weights_text(weights)));
      CompressRequest to_do = request("out", method);
      to_do.weights = weights;
      to_do.force = true;
      const CompressSummary summary = run_well(to_do);
      const auto after = io::Checkpoint::open(path("out"));
      const auto config = io::ModelConfig::load(path("out") / "config.json");
      ASSERT_TRUE(after.ok() && config.ok() && config->compression.has_value());
      EXPECT_EQ(config->compression->allocate, "measured");
      EXPECT_EQ(config->compression->method, method_name(method));
      int64_t parameters = 0;
      std::vector<int64_t> ranks;
      for (const io::MlpShape& layer : config->compression->ranks) {
        for (const int64_t rank : {layer.gate, layer.up, layer.down}) {
          ranks.push_back(rank);
          parameters += rank == 0 ? kMatrixParameters : rank * kRankParameters;
          EXPECT_EQ(rank % kBlock, 0);
          EXPECT_TRUE(rank == 0 || rank >= kFloor);
        }
      }
      EXPECT_LE(parameters, kMatrices * kRank * kRankParameters);
      EXPECT_NE(ranks, std::vector<int64_t>(kMatrices, kRank));
      EXPECT_EQ(summary.parameters_before - kMatrices * kMatrixParameters + parameters,
                summary.plan.parameters_after);
      if (weights == kOriginal) {
        EXPECT_EQ(after->parameters(), summary.plan.parameters_after);
      }
      EXPECT_EQ(summary.calibration_tokens, kSequences * 62);
      EXPECT_EQ(logits(path("out"), {1, 2, 3}).rows(), 3);
    }
  }
}

TEST_F(Sensitivity, ThreadsDoNotChangeTheModel) {
  for (const Method method : {Method::kWhitened, Method::kSvd}) {
    expect_threads_change_nothing(request("", method));
  }
}

TEST_F(Sensitivity, AnInterruptedMeasurementStartsAgainWithTheSameResult) {
  int64_t calls = 0;
  backend_.on_attention = [&] { ++calls; };
  run_well(request("whole"));
  const int64_t calibration = kLayers * kSequences, all = calls;
  // Counts the dense probe, and six branches per layer through the layers after it.
  EXPECT_EQ(all, calibration + kLayers + 6 * kLayers * (kLayers - 1) / 2);
  for (int64_t stop = calibration + 2; stop <= all; stop += 9) {
    SCOPED_TRACE(fmt::format("after {} of {} attentions", stop, all));
    calls = 0;
    backend_.on_attention = [&] { set_interrupted(++calls == stop || interrupted()); };
    const auto stopped = run(request("parts"));
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    EXPECT_NE(stopped.error().message.find("same command"), std::string::npos);
    EXPECT_FALSE(fs::exists(path("parts")));
    EXPECT_FALSE(fs::exists(path("parts.partial") / "work" / "ranks.json"));
    set_interrupted(false);
    calls = 0;
    backend_.on_attention = [&] { ++calls; };
    run_well(request("parts"));
    EXPECT_EQ(calls, all - calibration);  // measured again, but not calibrated again
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(Sensitivity, ARunInterruptedLaterKeepsItsRanks) {
  run_well(request("whole"));
  const auto interrupt = [](const MatrixReport&) { set_interrupted(true); };
  for (const bool damaged : {false, true}) {
    ASSERT_FALSE(run(request("parts"), interrupt).ok());
    set_interrupted(false);
    const fs::path ranks = path("parts.partial") / "work" / "ranks.json";
    ASSERT_TRUE(fs::exists(ranks));
    if (damaged) std::ofstream(ranks) << R"({"ranks":[16,16,16,16,16,16,16,16,-4]})";
    int64_t calls = 0;
    backend_.on_attention = [&] { ++calls; };
    run_well(request("parts"));
    backend_.on_attention = [] {};
    EXPECT_EQ(calls > 0, damaged);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    EXPECT_FALSE(fs::exists(path("parts") / "ranks.json"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(Sensitivity, RequestsWithoutTextOrSpareBlocksAreRefused) {
  for (const Method method : {Method::kWhitened, Method::kSvd}) {
    CompressRequest none = request("out", method);
    none.calibration.reset();
    expect_refused(none, {"needs calibration, self_generated or statistics"});
  }
  CompressRequest statistics = request("out");
  statistics.calibration.reset();
  statistics.statistics = path("statistics");
  expect_refused(statistics, {"allocate measured needs calibration or self_generated"});
  CompressRequest coarse = request("out");
  coarse.rule.block = kRank;
  expect_refused(coarse, {"allocate measured", "block of at most 8", "layer 0 gate is 16"});
}

TEST_F(Sensitivity, RefusesWeightsThatAreNotFinite) {
  tensors_.at("model.layers.1.mlp.down_proj.weight").values[7] =
      std::numeric_limits<float>::quiet_NaN();
  write_model(input_, tensors_);
  CompressTest::expect_refused(request("out", Method::kSvd), {"layer 1 down"});
}

}  // namespace
}  // namespace neuronmm::compress
