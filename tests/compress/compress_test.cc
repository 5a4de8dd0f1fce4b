// Whole compressions of tiny random models, on the reference backend.

#include "compress/compress.h"

#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "compress/factorize_model.h"
#include "compress/model_writer.h"
#include "eval/watched_backend.h"
#include "io/folder_writer.h"
#include "model/tiny_model.h"
#include "model/transformer.h"
#include "oracle.h"
#include "text/small_tokenizer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kHidden = 32, kInner = 64, kLayers = 3, kMatrices = 3 * kLayers, kRank = 16;

io::ModelConfig small_config() {
  io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  config.hidden_size = kHidden;
  config.intermediate_size = kInner;
  config.num_hidden_layers = kLayers;
  config.head_dim = 8;
  config.vocab_size = 256;
  return config;
}

std::string random_text(int64_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text;
  for (int64_t i = 0; i < length; ++i) text += static_cast<char>('a' + random() % 26);
  return text;
}

class Compress : public testing::Test {
 protected:
  void SetUp() override {
    set_num_threads(1);  // quick on a busy machine; one test is about more
    write_model(tensors_);
  }
  void TearDown() override {
    set_interrupted(false);
    set_num_threads(threads_);
  }

  void write_model(const model::TestTensors& tensors) {
    input_.write_tensors(tensors);
    input_.write_text("config.json", model::config_json(config_));
    input_.write_text("tokenizer.json", text::small_tokenizer().dump());
    input_.write_text("generation_config.json", "{\"eos_token_id\": 1}");
  }
  fs::path path(const std::string& name) const { return outputs_.path() / name; }
  // K·N/(K + N)·0.75 = 16 for both shapes of this model.
  CompressRequest request(const std::string& out, Method method = Method::kWhitened) const {
    CompressRequest request;
    request.model = input_.path();
    request.out = path(out);
    request.rule = {0.25, 4, Align::kNearest};
    request.method = method;
    if (method != Method::kSvd) request.calibration = {{{"text.txt", text_}}};
    return request;
  }
  Result<CompressSummary> run(const CompressRequest& request, const OnMatrix& on_matrix = {}) {
    return compress(request, backend_, silent_, on_matrix);
  }
  CompressSummary run_well(const CompressRequest& request) {
    auto summary = run(request);
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
    return std::move(summary).value();
  }
  void expect_refused(const CompressRequest& request, std::initializer_list<std::string> words) {
    const auto summary = run(request);
    ASSERT_FALSE(summary.ok());
    for (const std::string& word : words) {
      EXPECT_NE(summary.error().message.find(word), std::string::npos)
          << "no \"" << word << "\" in: " << summary.error().message;
    }
  }
  std::string bytes(const std::string& out, const std::string& file = "model.safetensors") const {
    std::ifstream stream(path(out) / file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  Matrix logits(const fs::path& folder, const std::vector<text::TokenId>& tokens) {
    auto transformer = model::Transformer::load(folder, backend_);
    if (!transformer.ok()) throw std::runtime_error(transformer.error().message);
    return model::all_logits(*transformer, tokens);
  }

  const int threads_ = num_threads();
  const std::string text_ = random_text(1000, 4);
  io::ModelConfig config_ = small_config();
  model::TestTensors tensors_ = model::random_tensors(config_, 20240601);
  model::ModelFolder input_, outputs_;
  eval::WatchedBackend backend_;
  Progress silent_;
};

std::string mlp_name(int64_t layer, MlpMatrix matrix, const char* ending) {
  return fmt::format("model.layers.{}.mlp.{}{}.weight", layer, matrix_name(matrix), ending);
}

DoubleMatrix tensor_of(const io::Checkpoint& checkpoint, const std::string& name) {
  return to_double_matrix(checkpoint.tensors().at(name));
}

// Inputs of the MLP of every layer, one token per column.
class InputCollector : public model::MlpObserver {
 public:
  void on_mlp(int64_t layer, ConstMatrixView input, ConstMatrixView) override {
    auto& values = inputs[layer];
    for (int64_t t = 0; t < input.rows; ++t) {
      values.insert(values.end(), input.row(t), input.row(t) + input.columns);
    }
  }
  DoubleMatrix matrix(int64_t layer) const {
    const auto& values = inputs.at(layer);
    DoubleMatrix x(kHidden, static_cast<int64_t>(values.size()) / kHidden);
    std::copy(values.begin(), values.end(), x.data());
    return x;
  }
  std::map<int64_t, std::vector<float>> inputs;
};

// silu(gate) * up in fp64.
DoubleMatrix mlp_inner(const io::Checkpoint& checkpoint, int64_t layer, const DoubleMatrix& x) {
  DoubleMatrix gate = multiply(tensor_of(checkpoint, mlp_name(layer, MlpMatrix::kGate, "_proj")),
                               Transpose::kNo, x, Transpose::kNo);
  const DoubleMatrix up = multiply(tensor_of(checkpoint, mlp_name(layer, MlpMatrix::kUp, "_proj")),
                                   Transpose::kNo, x, Transpose::kNo);
  for (int64_t i = 0; i < gate.size(); ++i) {
    gate.data()[i] *= up.data()[i] / (1.0 + std::exp(-gate.data()[i]));
  }
  return gate;
}

TEST_F(Compress, EnergyLostIsTheMeasuredOutputError) {
  const CompressSummary summary = run_well(request("out"));
  ASSERT_EQ(summary.matrices.size(), static_cast<size_t>(kMatrices));

  const auto tokenizer = text::Tokenizer::load(input_.path());
  ASSERT_TRUE(tokenizer.ok());
  const auto calibration =
      calibration_sequences(*tokenizer, {{"text", text_}}, kDefaultCalibrationTokens, config_);
  ASSERT_TRUE(calibration.ok());
  EXPECT_EQ(calibration->sequences.size(), 16u);  // 1000 tokens in sequences of at most 64
  EXPECT_EQ(calibration->longest(), 62);
  EXPECT_EQ(summary.calibration_tokens, 16 * 62);

  const auto dense = model::Transformer::load(input_.path(), backend_);
  ASSERT_TRUE(dense.ok());
  InputCollector collector;
  for (const auto& sequence : calibration->sequences) {
    const auto cache = dense->make_cache(calibration->longest());
    dense->forward(sequence, *cache, model::Transformer::Logits::kLast, &collector);
  }
  const auto compressed = io::Checkpoint::open(path("out"));
  ASSERT_TRUE(compressed.ok());
  for (const MatrixReport& report : summary.matrices) {
    SCOPED_TRACE(fmt::format("layer {} {}", report.layer, matrix_name(report.matrix)));
    EXPECT_EQ(report.rank, kRank);
    DoubleMatrix x = collector.matrix(report.layer);
    if (report.matrix == MlpMatrix::kDown) x = mlp_inner(dense->checkpoint(), report.layer, x);
    const LongMatrix inputs(x);
    const LongMatrix w(
        tensor_of(dense->checkpoint(), mlp_name(report.layer, report.matrix, "_proj")));
    const LongMatrix v(tensor_of(*compressed, mlp_name(report.layer, report.matrix, "_u_proj")));
    const LongMatrix u(tensor_of(*compressed, mlp_name(report.layer, report.matrix, "_v_proj")));
    const auto lost = static_cast<double>(((w - v * u) * inputs).energy());
    const auto total = static_cast<double>((w * inputs).energy());
    EXPECT_GT(report.energy_lost, 0.01);  // so that the comparison says something
    // Activations, down's output and the stored factors are fp32: each a relative 2^-24 per
    // element, summed over at most kInner elements, squared energies twice that.
    EXPECT_NEAR(report.energy_lost, lost / total, 2 * kInner * 0x1p-24);
  }
}

TEST_F(Compress, AModelOfLowRankWeightsIsReproduced) {
  std::mt19937_64 random(8);
  for (auto& [name, tensor] : tensors_) {
    if (name.find(".mlp.") == std::string::npos) continue;
    const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
    const DoubleMatrix product = multiply(random_matrix(rows, kRank, random), Transpose::kNo,
                                          random_matrix(kRank, columns, random), Transpose::kNo);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        tensor.values[static_cast<size_t>(i * columns + j)] =
            static_cast<float>(0.08 * product(i, j));
      }
    }
  }
  write_model(tensors_);
  const std::vector<text::TokenId> tokens = model::random_tokens(40, 256, 5);
  const Matrix expected = logits(input_.path(), tokens);
  float largest = 0.0f;
  for (int64_t i = 0; i < expected.rows() * expected.columns(); ++i) {
    largest = std::max(largest, std::abs(expected.data()[i]));
  }
  for (const Method method : {Method::kWhitened, Method::kErrorAware, Method::kSvd}) {
    SCOPED_TRACE(method_name(method));
    const CompressSummary summary = run_well(request("out", method));
    for (const MatrixReport& report : summary.matrices) EXPECT_LE(report.energy_lost, 1e-12);
    const Matrix actual = logits(path("out"), tokens);
    // Two fp32 factors instead of one matrix: relative 2·2^-24 per product, at most kHidden +
    // kInner products in a row per matrix, kMatrices matrices, each amplified little by residual
    // and norm.
    const double bound = 2 * 0x1p-24 * (kHidden + kInner) * kMatrices * largest;
    for (int64_t i = 0; i < expected.rows() * expected.columns(); ++i) {
      ASSERT_NEAR(actual.data()[i], expected.data()[i], bound) << i;
    }
    fs::remove_all(path("out"));
  }
}

TEST_F(Compress, TheOutputIsACompleteFolder) {
  // Factors take the dtype of the matrix that they replace.
  tensors_.at(mlp_name(1, MlpMatrix::kUp, "_proj")).dtype = DType::kBF16;
  write_model(tensors_);
  CompressRequest some = request("out");
  some.only = {true, true, false};
  const CompressSummary summary = run_well(some);

  const auto before = io::Checkpoint::open(input_.path()),
             after = io::Checkpoint::open(path("out"));
  ASSERT_TRUE(before.ok() && after.ok());
  size_t kept = 0;
  for (const auto& [name, tensor] : before->tensors()) {
    const bool replaced = name.ends_with("gate_proj.weight") || name.ends_with("up_proj.weight");
    ASSERT_EQ(after->has(name), !replaced) << name;
    if (replaced) continue;
    ++kept;
    const TensorView& copy = after->tensors().at(name);
    EXPECT_EQ(copy.shape, tensor.shape);
    ASSERT_EQ(copy.dtype, tensor.dtype);
    EXPECT_TRUE(std::equal(copy.data, copy.data + copy.size_bytes(), tensor.data)) << name;
  }
  EXPECT_EQ(after->tensors().size(), kept + 4 * kLayers);
  const TensorView& first = after->tensors().at(mlp_name(1, MlpMatrix::kUp, "_v_proj"));
  const TensorView& second = after->tensors().at(mlp_name(1, MlpMatrix::kUp, "_u_proj"));
  EXPECT_EQ(first.shape, (Shape{kRank, kHidden}));
  EXPECT_EQ(second.shape, (Shape{kInner, kRank}));
  EXPECT_EQ(first.dtype, DType::kBF16);
  EXPECT_EQ(second.dtype, DType::kBF16);

  const auto config = io::ModelConfig::load(path("out") / "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  ASSERT_TRUE(config->compression.has_value());
  EXPECT_EQ(config->compression->method, "whitened");
  EXPECT_EQ(config->compression->ratio, 0.25);
  EXPECT_EQ(config->compression->block, 4);
  EXPECT_EQ(config->compression->align, "nearest");
  EXPECT_EQ(config->compression->ranks.at(2).gate, kRank);
  EXPECT_EQ(config->compression->ranks.at(2).down, 0);

  EXPECT_EQ(summary.parameters_before, before->parameters());
  EXPECT_EQ(summary.parameters_after, after->parameters());
  EXPECT_EQ(summary.bytes_after, after->size_bytes());
  EXPECT_EQ(summary.plan.parameters_before, before->parameters());
  EXPECT_EQ(summary.plan.parameters_after, after->parameters());
  EXPECT_EQ(bytes("out", "tokenizer.json"), text::small_tokenizer().dump());
  EXPECT_TRUE(fs::exists(path("out") / "generation_config.json"));
  EXPECT_FALSE(fs::exists(path("out") / StagedWork::kName));
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

TEST_F(Compress, SavedGramMatricesGiveTheSameModel) {
  CompressRequest first = request("first");
  first.save_gram = path("grams.safetensors");
  run_well(first);
  CompressRequest second = request("second");
  second.calibration.reset();
  second.gram = first.save_gram;
  const CompressSummary summary = run_well(second);
  EXPECT_EQ(summary.calibration_tokens, 16 * 62);
  EXPECT_EQ(bytes("first"), bytes("second"));
}

TEST_F(Compress, ThreadsDoNotChangeTheModel) {
  for (const Method method : {Method::kWhitened, Method::kErrorAware, Method::kSvd}) {
    set_num_threads(1);
    run_well(request("one", method));
    set_num_threads(3);
    run_well(request("three", method));
    EXPECT_EQ(bytes("one"), bytes("three"));
    fs::remove_all(path("one"));
    fs::remove_all(path("three"));
  }
}

TEST_F(Compress, InterruptedCalibrationResumesExactly) {
  int64_t calls = 0;
  backend_.on_attention = [&] { ++calls; };
  run_well(request("whole"));
  const int64_t all_calls = calls;
  EXPECT_EQ(all_calls, kLayers * 16);

  for (const int64_t stop : {int64_t{1}, int64_t{16}, int64_t{21}, all_calls}) {
    SCOPED_TRACE(fmt::format("after {} of {} sequences", stop, all_calls));
    calls = 0;
    backend_.on_attention = [&] { set_interrupted(++calls == stop); };
    const auto stopped = run(request("parts"));
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    EXPECT_NE(stopped.error().message.find("same command"), std::string::npos);
    EXPECT_FALSE(fs::exists(path("parts")));
    set_interrupted(false);
    calls = 0;
    backend_.on_attention = [&] { ++calls; };
    run_well(request("parts"));
    EXPECT_EQ(calls, all_calls - stop);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(Compress, InterruptedErrorAwareRunResumesExactly) {
  int64_t calls = 0;
  backend_.on_attention = [&] { ++calls; };
  run_well(request("whole", Method::kErrorAware));
  const int64_t all_calls = calls;
  EXPECT_EQ(all_calls, kLayers * 16 * 2);  // dense and compressed
  for (const int64_t stop : {int64_t{1}, int64_t{32}, int64_t{45}, all_calls}) {
    SCOPED_TRACE(fmt::format("after {} of {} attentions", stop, all_calls));
    calls = 0;
    backend_.on_attention = [&] { set_interrupted(++calls == stop || interrupted()); };
    ASSERT_FALSE(run(request("parts", Method::kErrorAware)).ok());
    set_interrupted(false);
    EXPECT_FALSE(fs::exists(path("parts")));
    const int64_t before = calls;
    backend_.on_attention = [&] { ++calls; };
    EXPECT_EQ(run_well(request("parts", Method::kErrorAware)).matrices.size(),
              static_cast<size_t>(kMatrices));
    EXPECT_EQ(calls, all_calls);
    EXPECT_LE(before, stop + 1);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
  backend_.on_attention = [] {};
  for (int64_t stop = 1; stop < kMatrices; stop += 2) {
    SCOPED_TRACE(fmt::format("after {} of {} matrices", stop, kMatrices));
    int64_t done = 0;
    ASSERT_FALSE(run(request("parts", Method::kErrorAware), [&](const MatrixReport&) {
                   set_interrupted(++done >= stop);
                 }).ok());
    set_interrupted(false);
    run_well(request("parts", Method::kErrorAware));
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
}

// A state without the factors that led to it is worth nothing.
TEST_F(Compress, ErrorAwareStartsAgainWithoutItsFactors) {
  run_well(request("whole", Method::kErrorAware));
  int64_t done = 0;
  ASSERT_FALSE(run(request("parts", Method::kErrorAware), [&](const MatrixReport&) {
                 set_interrupted(++done >= 5);
               }).ok());
  set_interrupted(false);
  ASSERT_TRUE(fs::remove(path("parts.partial") / StagedWork::kName / "layer-00000.up.safetensors"));
  run_well(request("parts", Method::kErrorAware));
  EXPECT_EQ(bytes("parts"), bytes("whole"));
}

// On text that neither has seen, with factors as they are and rounded to int8.
TEST_F(Compress, ErrorAwareLosesLessOfTheDenseOutput) {
  const std::vector<text::TokenId> tokens = model::random_tokens(60, 256, 6);
  const Matrix dense = logits(input_.path(), tokens);
  const auto error = [&](Method method, WeightFormat weights) {
    CompressRequest to_do = request("out", method);
    to_do.weights = weights;
    to_do.force = true;
    run_well(to_do);
    const Matrix other = logits(path("out"), tokens);
    double sum = 0.0;
    for (int64_t i = 0; i < dense.rows() * dense.columns(); ++i) {
      sum += std::pow(dense.data()[i] - other.data()[i], 2);
    }
    return sum;
  };
  for (const WeightFormat weights : {WeightFormat::kAsIs, WeightFormat::kInt8}) {
    EXPECT_LE(error(Method::kErrorAware, weights), error(Method::kWhitened, weights))
        << weights_name(weights);
  }
}

TEST_F(Compress, InterruptedFactorizationResumesExactly) {
  for (const Method method : {Method::kWhitened, Method::kSvd}) {
    run_well(request("whole", method));
    for (int64_t stop = 1; stop <= kMatrices; stop += 2) {
      SCOPED_TRACE(fmt::format("{} after {} of {} matrices", method_name(method), stop, kMatrices));
      int64_t done = 0;
      const auto stopped = run(request("parts", method), [&](const MatrixReport&) {
        if (++done == stop) set_interrupted(true);
      });
      ASSERT_FALSE(stopped.ok());
      EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
      EXPECT_TRUE(fs::exists(path("parts.partial")));
      EXPECT_FALSE(fs::exists(path("parts")));
      set_interrupted(false);
      int64_t attentions = 0;
      backend_.on_attention = [&] { ++attentions; };
      const CompressSummary resumed = run_well(request("parts", method));
      backend_.on_attention = [] {};
      EXPECT_EQ(attentions, 0);
      EXPECT_EQ(resumed.matrices.size(), static_cast<size_t>(kMatrices));
      EXPECT_EQ(bytes("parts"), bytes("whole"));
      EXPECT_FALSE(fs::exists(path("parts.partial")));
      fs::remove_all(path("parts"));
    }
    fs::remove_all(path("whole"));
  }
}

TEST_F(Compress, OtherSettingsStartAfresh) {
  const auto interrupt = [](const MatrixReport&) { set_interrupted(true); };
  ASSERT_FALSE(run(request("out", Method::kSvd), interrupt).ok());
  set_interrupted(false);
  CompressRequest other = request("out", Method::kSvd);
  other.rule.ratio = 0.5;
  const CompressSummary summary = run_well(other);
  for (const MatrixReport& report : summary.matrices) EXPECT_EQ(report.rank, 12);

  ASSERT_FALSE(run(request("changed", Method::kSvd), interrupt).ok());
  set_interrupted(false);
  tensors_.at(mlp_name(0, MlpMatrix::kGate, "_proj")).values[0] += 1.0f;
  write_model(tensors_);
  run_well(request("changed", Method::kSvd));
  run_well(request("expected", Method::kSvd));
  EXPECT_EQ(bytes("changed"), bytes("expected"));
}

TEST_F(Compress, ShardsHoldTheSameTensors) {
  const auto checkpoint = io::Checkpoint::open(input_.path());
  const auto plan =
      make_plan(config_, {0.25, 4, Align::kNearest}, {}, WeightFormat::kAsIs, "model");
  ASSERT_TRUE(checkpoint.ok() && plan.ok());
  fs::create_directories(path("staging"));
  const auto work = StagedWork::open(path("staging"), "settings");
  ASSERT_TRUE(work.ok()) << work.error().message;
  const auto reports = factorize_model(*checkpoint, config_, *plan, GramSource(), *work,
                                       WeightFormat::kAsIs, silent_, OnMatrix());
  ASSERT_TRUE(reports.ok()) << reports.error().message;
  fs::create_directories(path("single"));
  fs::create_directories(path("sharded"));
  const ModelSource source = {*checkpoint, config_, plan->matrices, *work};
  const auto write = [&](const char* folder, int64_t max_shard_bytes) {
    return compress::write_model(source, WeightFormat::kInt8, path(folder), silent_,
                                 max_shard_bytes);
  };
  ASSERT_TRUE(write("single", io::kMaxShardBytes).ok());
  ASSERT_TRUE(write("sharded", 20000).ok());
  const auto single = io::Checkpoint::open(path("single")),
             shards = io::Checkpoint::open(path("sharded"));
  ASSERT_TRUE(single.ok() && shards.ok());
  EXPECT_TRUE(fs::exists(path("sharded") / "model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(path("sharded") / "model.safetensors"));
  ASSERT_EQ(single->tensors().size(), shards->tensors().size());
  for (const auto& [name, tensor] : single->tensors()) {
    const TensorView& other = shards->tensors().at(name);
    ASSERT_EQ(other.shape, tensor.shape);
    EXPECT_TRUE(std::equal(tensor.data, tensor.data + tensor.size_bytes(), other.data)) << name;
  }
}

TEST_F(Compress, RefusesWrongCombinationsOfFlags) {
  CompressRequest none = request("out");
  none.calibration.reset();
  expect_refused(none, {"--calibration", "--gram", "--method svd"});
  CompressRequest both = request("out");
  both.gram = path("g");
  expect_refused(both, {"--calibration", "--gram", "exclude"});
  CompressRequest svd = request("out", Method::kSvd);
  svd.gram = path("g");
  expect_refused(svd, {"--method svd", "--gram"});
  CompressRequest aware = request("out", Method::kErrorAware);
  aware.calibration.reset();
  expect_refused(aware, {"--method error-aware", "--calibration"});
  aware.gram = path("g");
  expect_refused(aware, {"--method error-aware", "--calibration", "--gram"});
  CompressRequest save = request("out");
  save.calibration.reset();
  save.gram = save.save_gram = path("g");
  expect_refused(save, {"--save-gram", "--calibration"});
}

TEST_F(Compress, RefusesTextsThatAreTooShort) {
  for (const int64_t length : {0, 1, 31}) {
    CompressRequest tiny = request("out");
    tiny.calibration->texts[0].text = random_text(length, 1);
    expect_refused(tiny, {"text.txt", "32", fmt::format("found {} tokens", length)});
  }
  CompressRequest limited = request("out");
  limited.calibration->max_tokens = 20;
  expect_refused(limited, {"text.txt", "32", "found 1000 tokens and used 20"});
  CompressRequest enough = request("out");
  enough.calibration->texts[0].text = random_text(32, 1);
  EXPECT_EQ(run_well(enough).calibration_tokens, 32);
}

TEST_F(Compress, SeveralTextsAreSampledEvenly) {
  const auto tokenizer = text::Tokenizer::load(input_.path());
  ASSERT_TRUE(tokenizer.ok());
  // One token per letter: who a token comes from shows in its id.
  const std::string many_a(5000, 'a'), some_b(100, 'b'), many_c(3000, 'c');
  const auto mixed = calibration_sequences(
      *tokenizer, {{"a", many_a}, {"b", some_b}, {"c", many_c}}, 1100, config_);
  ASSERT_TRUE(mixed.ok()) << mixed.error().message;
  std::map<text::TokenId, int64_t> tokens;
  for (const auto& sequence : mixed->sequences) {
    EXPECT_LE(std::ssize(sequence), config_.max_position_embeddings);
    for (const text::TokenId id : sequence) {
      EXPECT_EQ(id, sequence[0]);
      ++tokens[id];
    }
  }
  ASSERT_EQ(tokens.size(), 3u);
  // All 100 of b, and 500 each of the others, less what equal sequences leave over.
  const std::vector<int64_t> wanted = {500, 100, 500};
  size_t i = 0;
  for (const auto& [id, count] : tokens) {
    EXPECT_LE(count, wanted[i]);
    EXPECT_GT(count, wanted[i] - (wanted[i] + 63) / 64);
    ++i;
  }
  EXPECT_NE(mixed->origin.text.find("a fnv1a:"), std::string::npos);
  EXPECT_NE(mixed->origin.text.find(", c fnv1a:"), std::string::npos);
}

TEST_F(Compress, RefusesAModelThatIsCompressed) {
  run_well(request("once", Method::kSvd));
  CompressRequest again = request("twice", Method::kSvd);
  again.model = path("once");
  expect_refused(again, {path("once").string(), "compressed already"});
  // A folder of the reference system has factors but no record.
  fs::copy_file(input_.path() / "config.json", path("once") / "config.json",
                fs::copy_options::overwrite_existing);
  expect_refused(again, {path("once").string(), "layer 0 gate", "low-rank already", "rank 16"});
}

TEST_F(Compress, RefusesModelsThatCannotBeFactorized) {
  auto& values = tensors_.at(mlp_name(1, MlpMatrix::kDown, "_proj")).values;
  const float saved = values[7];
  values[7] = std::numeric_limits<float>::quiet_NaN();
  write_model(tensors_);
  expect_refused(request("out", Method::kSvd), {"layer 1 down", "NaN"});
  expect_refused(request("out2"), {"layer 1", "NaN", "calibration"});
  values[7] = saved;
  tensors_.erase(mlp_name(2, MlpMatrix::kGate, "_proj"));
  write_model(tensors_);
  expect_refused(request("out3", Method::kSvd), {"model.layers.2.mlp.gate_proj.weight"});
  EXPECT_FALSE(fs::exists(path("out3.partial")));
}

TEST_F(Compress, RefusesOutputsThatMustNotBeTouched) {
  CompressRequest onto_input = request("out", Method::kSvd);
  onto_input.out = input_.path();
  onto_input.force = true;
  expect_refused(onto_input, {"input"});
  run_well(request("out", Method::kSvd));
  expect_refused(request("out", Method::kSvd), {path("out").string(), "--force"});
  CompressRequest forced = request("out", Method::kSvd);
  forced.force = true;
  forced.rule.ratio = 0.5;
  EXPECT_EQ(run_well(forced).matrices.at(0).rank, 12);

  fs::create_directories(path("other.partial"));
  std::ofstream(path("other.partial") / "precious") << "keep me";
  expect_refused(request("other", Method::kSvd), {"other.partial", "unfinished"});
  EXPECT_TRUE(fs::exists(path("other.partial") / "precious"));
}

// Damaged work files of a killed run are made again, not believed.
TEST_F(Compress, DamagedWorkFilesAreMadeAgain) {
  run_well(request("whole", Method::kSvd));
  int64_t done = 0;
  ASSERT_FALSE(run(request("parts", Method::kSvd), [&](const MatrixReport&) {
                 set_interrupted(++done == 4);
               }).ok());
  set_interrupted(false);
  int damaged = 0;
  for (const auto& entry : fs::directory_iterator(path("parts.partial") / StagedWork::kName)) {
    if (entry.path().extension() != ".safetensors") continue;
    fs::resize_file(entry.path(), 50);
    ++damaged;
  }
  EXPECT_GE(damaged, 4);
  run_well(request("parts", Method::kSvd));
  EXPECT_EQ(bytes("parts"), bytes("whole"));
}

}  // namespace
}  // namespace neuronmm::compress
