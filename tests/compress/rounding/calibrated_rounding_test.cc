// Tests rounding by a calibration text on tiny random models, from the request to the folder.

#include "compress/rounding/calibrated_rounding.h"

#include "compress/compress_test.h"
#include "compress/linear_algebra/blas.h"
#include "compress/quantize.h"
#include "compress/rounding/round_model.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/checksum.h"
#include "io/compression_record.h"
#include "model/layer_weights.h"
#include "ops/quantize.h"

namespace neuronmm::compress {
namespace {

constexpr LowBitFormat k4Bits = {4, 16};

class ByText : public CompressTest {
 protected:
  QuantizeRequest to_nearest(const std::string& out) const {
    return {.model = input_.path(), .out = path(out), .formats = {k4Bits, {6}}};
  }
  QuantizeRequest by_text(const std::string& out) const {
    QuantizeRequest request = to_nearest(out);
    request.rounding = Rounding::kGptq;
    request.smooth = true;
    request.calibration = {{{"text.txt", text_}}};
    return request;
  }
  QuantizeRequest saving(const std::string& out) const {
    QuantizeRequest request = by_text(out);
    request.statistics = path("statistics");
    return request;
  }
  QuantizeRequest reading(const std::string& out) const {
    QuantizeRequest request = by_text(out);
    request.calibration.reset();
    request.statistics = path("statistics");
    return request;
  }
  Result<QuantizeSummary> run(const QuantizeRequest& request) {
    return quantize(request, backend_, silent_);
  }
  void run_well(const QuantizeRequest& request) {
    const auto summary = run(request);
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
  }
  void expect_refused(const QuantizeRequest& request, std::initializer_list<std::string> words) {
    const auto summary = run(request);
    ASSERT_FALSE(summary.ok());
    for (const std::string& word : words) {
      EXPECT_NE(summary.error().message.find(word), std::string::npos)
          << "no \"" << word << "\" in: " << summary.error().message;
    }
    EXPECT_FALSE(fs::exists(request.out));
  }
  // Returns the mean squared error of the logits at the beginning of the text.
  double logit_error(const std::string& out) {
    const auto tokenizer = text::Tokenizer::load(input_.path());
    const auto text = calibration_sequences(*tokenizer, {{"text", text_}}, 400, config_);
    const Matrix exact = logits(input_.path(), text->sequences.front());
    const Matrix found = logits(path(out), text->sequences.front());
    double sum = 0;
    for (int64_t i = 0; i < exact.rows() * exact.columns(); ++i) {
      sum += std::pow(double{exact.data()[i]} - found.data()[i], 2);
    }
    return sum / static_cast<double>(exact.rows() * exact.columns());
  }
  // Makes a few channels of the layers' inputs much larger than the others, as in a trained model.
  void spread_channels(DType norms = DType::kF32) {
    for (auto& [name, tensor] : tensors_) {
      if (!name.ends_with("layernorm.weight")) continue;
      for (size_t i = 0; i < tensor.values.size(); i += 7) tensor.values[i] *= 20.0f;
      tensor.dtype = norms;
    }
    write_model(input_, tensors_);
  }
};

TEST_F(ByText, GptqAndSmoothingEachLoseLessOnTheText) {
  spread_channels();
  run_well(to_nearest("nearest"));
  run_well(by_text("both"));
  QuantizeRequest gptq = by_text("gptq"), smooth = by_text("smooth");
  gptq.smooth = false;
  smooth.rounding = Rounding::kNearest;
  run_well(gptq);
  run_well(smooth);
  const double nearest = logit_error("nearest");
  EXPECT_LT(logit_error("gptq"), 0.8 * nearest);
  EXPECT_LT(logit_error("both"), 0.8 * nearest);
  EXPECT_NE(bytes("both"), bytes("gptq"));
  EXPECT_NE(bytes("smooth"), bytes("nearest"));
}

// The folder holds the codes that the Gram matrices of the saved statistics give.
TEST_F(ByText, TheFolderHoldsTheCodesByGramMatrices) {
  QuantizeRequest request = saving("out");
  request.smooth = false;
  run_well(request);
  const auto before = io::Checkpoint::open(input_.path()),
             after = io::Checkpoint::open(path("out"));
  ASSERT_TRUE(before.ok() && after.ok());
  const auto expect_codes = [&](const std::string& name, const DoubleMatrix& inputs,
                                const LowBitFormat& format) {
    const auto gram = RoundingGram::prepare(inputs);
    ASSERT_TRUE(gram.ok());
    const auto codes = round_by_gram(to_double_matrix(before->tensors().at(name)), *gram, format);
    ASSERT_TRUE(codes.ok());
    const ops::QuantizedWeight stored = ops::pack_codes(*codes);
    const auto expect_bytes = [&](const std::string& tensor, const auto& values) {
      const TensorView& found = after->tensors().at(tensor);
      const auto wanted = std::as_bytes(std::span(values));
      ASSERT_EQ(found.size_bytes(), std::ssize(wanted)) << tensor;
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), found.data)) << tensor;
    };
    expect_bytes(name, stored.values);
    expect_bytes(name + "_scale", stored.scales);
    if (format.bits == 4) expect_bytes(name + "_group", stored.multipliers);
  };
  const auto mlp = read_statistics(path("statistics"), 1, config_);
  const auto head = read_head_statistics(path("statistics"), config_);
  ASSERT_TRUE(mlp.ok() && head.ok());
  expect_codes("model.layers.1.mlp.up_proj.weight", mlp->in, k4Bits);
  expect_codes("model.layers.1.mlp.down_proj.weight", mlp->neurons, k4Bits);
  expect_codes("lm_head.weight", *head, {6});
}

// Factors that do not cancel would cost much more than rounding does. Norms keep their dtype.
TEST_F(ByText, FactorsCancelInEveryArchitecture) {
  const io::ModelConfig small = config_;
  for (const auto architecture :
       {io::Architecture::kLlama, io::Architecture::kQwen2, io::Architecture::kQwen3}) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, tied {}", io::architecture_name(architecture), tied));
      config_ = model::tiny_config(architecture);
      config_.hidden_size = small.hidden_size;
      config_.vocab_size = small.vocab_size;
      config_.tie_word_embeddings = tied;
      tensors_ = model::random_tensors(config_, 20261123);
      spread_channels(DType::kBF16);
      QuantizeRequest by_int8 = by_text("out"), nearest = to_nearest("nearest");
      by_int8.rounding = Rounding::kNearest;
      by_int8.formats = nearest.formats = {};
      by_int8.force = nearest.force = true;
      run_well(by_int8);
      run_well(nearest);
      EXPECT_LT(logit_error("out"), 2.0 * logit_error("nearest"));
      const auto after = io::Checkpoint::open(path("out"));
      ASSERT_TRUE(after.ok());
      const std::string norm = "model.layers.0.input_layernorm.weight";
      EXPECT_EQ(after->tensors().at(norm).dtype, DType::kBF16);
    }
  }
}

// The model that is rounded may be compressed, so it may have factors and maps of pivots.
TEST_F(ByText, RoundingByTextLosesLessInEveryForm) {
  const std::pair<const char*, std::vector<io::MlpShape>> forms[] = {
      {"uv", {{16, 20, 12}, {16, 0, 20}, {0, 12, 0}}},
      {"pivoted", {{16, 20, 12}, {16, 0, 20}, {0, 12, 0}}},
      {"narrow", {{0, 0, 20, 24}, {0, 0, 12, 16}, {0, 0, 0, 20}}},
      {"neurons", {{0, 0, 0, 0, 48}, {0, 0, 0, 0, 30}, {0, 0, 0, 0, 64}}},
      {"mixed", {{0, 0, 20, 24, 50}, {0, 0, 0, 0, 33}, {0, 0, 12, 16, 64}}}};
  for (const auto& [form, shapes] : forms) {
    SCOPED_TRACE(form);
    config_.compression = model::tiny_record(form, shapes);
    tensors_ = model::random_tensors(config_, 20261123);
    spread_channels();
    QuantizeRequest nearest = to_nearest("nearest"), text = by_text("text");
    QuantizeRequest smooth = by_text("smooth");
    smooth.rounding = Rounding::kNearest;
    nearest.force = text.force = smooth.force = true;
    run_well(nearest);
    run_well(text);
    run_well(smooth);
    EXPECT_LT(logit_error("text"), 0.9 * logit_error("nearest"));
    EXPECT_LT(logit_error("smooth"), 2.0 * logit_error("nearest"));
    const auto config = io::ModelConfig::load(path("text") / "config.json");
    ASSERT_TRUE(config.ok());
    EXPECT_EQ(config->compression->ranks, shapes);
    const auto after = io::Checkpoint::open(path("text"));
    ASSERT_TRUE(after.ok());
    for (const auto& [name, tensor] : after->tensors()) {
      if (!name.ends_with("_pivot_proj.weight")) continue;
      EXPECT_EQ(tensor.dtype, DType::kI8) << name;
    }
  }
}

TEST_F(ByText, SavedStatisticsGiveTheSameFolder) {
  run_well(by_text("text"));
  run_well(saving("saving"));
  int passes = 0;
  backend_.on_attention = [&] { ++passes; };
  run_well(reading("reading"));
  EXPECT_EQ(passes, 0);
  run_well(saving("again"));  // now the statistics are there
  EXPECT_EQ(passes, 0);
  for (const char* const other : {"saving", "reading", "again"}) {
    EXPECT_EQ(bytes(other), bytes("text")) << other;
  }
  EXPECT_EQ(bytes("saving", "config.json"), bytes("text", "config.json"));
}

// A folder of statistics may hold only those of the MLPs. A run with the text adds the others.
TEST_F(ByText, StatisticsOfMlpsAloneAreCompleted) {
  run_well(saving("first"));
  fs::remove(head_path(path("statistics")));
  fs::remove(attention_path(path("statistics"), 1));
  expect_refused(reading("out"), {"attention-00001"});
  run_well(saving("out"));
  EXPECT_EQ(bytes("out"), bytes("first"));
  run_well(reading("again"));
  EXPECT_EQ(bytes("again"), bytes("first"));
}

TEST_F(ByText, AnInterruptedRunIsContinued) {
  run_well(by_text("whole"));
  for (const int stop : {1, 5}) {
    int passes = 0;
    backend_.on_attention = [&] {
      if (++passes == stop) set_interrupted(true);
    };
    const auto stopped = run(by_text("parts"));
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    EXPECT_FALSE(fs::exists(path("parts")));
    set_interrupted(false);
    backend_.on_attention = [] {};
    run_well(by_text("parts"));
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(ByText, TheConfigNamesTheTexts) {
  run_well(by_text("out"));
  const auto config = io::ModelConfig::load(path("out") / "config.json");
  ASSERT_TRUE(config.ok() && config->quantization.has_value());
  ASSERT_EQ(config->quantization->calibration.size(), 1u);
  EXPECT_EQ(config->quantization->calibration[0].name, "text.txt");
  EXPECT_TRUE(io::calibrated_on(*config, io::checksum(text_)));
  EXPECT_FALSE(io::calibrated_on(*config, io::checksum("another")));
}

TEST_F(ByText, MissingTextShortTextAndNanAreRefused) {
  expect_refused(reading("out"), {"statistics"});
  QuantizeRequest without = by_text("out");
  without.calibration.reset();
  expect_refused(without, {"need a calibration text"});
  QuantizeRequest few = by_text("out");
  few.calibration->texts = {NamedText{"text.txt", "abc"}};
  expect_refused(few, {"text.txt", "tokens"});
  tensors_.at("model.layers.1.mlp.up_proj.weight").values[3] = std::nanf("");
  write_model(input_, tensors_);
  expect_refused(by_text("out"), {"layer 1"});
}

}  // namespace
}  // namespace neuronmm::compress
