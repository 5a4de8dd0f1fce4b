// This file tests whole compressions of tiny random models on the reference backend.

#include "compress/compress_test.h"

#include <limits>

#include "compress/factorize_model.h"
#include "compress/oracle.h"
#include "compress/output/model_writer.h"
#include "io/checksum.h"
#include "io/folder_writer.h"
#include "io/text_file.h"

namespace neuronmm::compress {
namespace {

class Compress : public CompressTest {
 protected:
  // Compresses tensors_ after its MLPs were made of low rank.
  void expect_reproduced();
};

DoubleMatrix tensor_of(const io::Checkpoint& checkpoint, const std::string& name) {
  return to_double_matrix(checkpoint.tensors().at(name));
}

// Collects the inputs of every layer's MLP, one token per column.
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

// Returns silu(gate) * up in fp64.
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
  EXPECT_EQ(std::ssize(calibration->sequences), kSequences);
  EXPECT_EQ(calibration->longest(), 62);
  EXPECT_EQ(summary.calibration_tokens, kSequences * 62);

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
    // The loss must be large enough for the comparison to mean something.
    EXPECT_GT(report.energy_lost, 0.01);
    // Activations, the output of down and the stored factors are fp32, with a relative error of
    // 2^-24 per element. At most kInner elements are summed, and squared energies have twice the
    // error.
    EXPECT_NEAR(report.energy_lost, lost / total, 2 * kInner * 0x1p-24);
  }
}

TEST_F(Compress, AModelOfLowRankWeightsIsReproduced) { expect_reproduced(); }

TEST_F(Compress, AModelOfLowRankWeightsOfAnotherFamilyIsReproduced) {
  for (const auto architecture : {io::Architecture::kGemma2, io::Architecture::kOlmo2}) {
    SCOPED_TRACE(io::architecture_name(architecture));
    use_family(architecture);
    expect_reproduced();
  }
  use_family(io::Architecture::kLlama, true);
  expect_reproduced();
}

void Compress::expect_reproduced() {
  std::mt19937_64 random(8);
  for (auto& [name, tensor] : tensors_) {
    if (name.find(".mlp.") == std::string::npos || tensor.shape.size() == 1) continue;
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
  write_model(input_, tensors_);
  const std::vector<text::TokenId> tokens = model::random_tokens(40, 256, 5);
  const Matrix expected = logits(input_.path(), tokens);
  float largest = 0.0f;
  for (int64_t i = 0; i < expected.rows() * expected.columns(); ++i) {
    largest = std::max(largest, std::abs(expected.data()[i]));
  }
  for (const Method method : {Method::kWhitened, Method::kSvd}) {
    SCOPED_TRACE(method_name(method));
    const CompressSummary summary = run_well(request("out", method));
    for (const MatrixReport& report : summary.matrices) EXPECT_LE(report.energy_lost, 1e-12);
    const Matrix actual = logits(path("out"), tokens);
    // Two fp32 factors replace one matrix, which makes a relative error of 2·2^-24 per product. A
    // matrix sums at most kHidden + kInner products in a row, and there are kMatrices matrices.
    // Residuals and norms amplify the error of each only a little.
    const double bound = 2 * 0x1p-24 * (kHidden + kInner) * kMatrices * largest;
    for (int64_t i = 0; i < expected.rows() * expected.columns(); ++i) {
      ASSERT_NEAR(actual.data()[i], expected.data()[i], bound) << i;
    }
    fs::remove_all(path("out"));
  }
}

TEST_F(Compress, TheOutputIsACompleteFolder) {
  // The factors get the dtype of the matrix that they replace.
  tensors_.at(mlp_name(1, MlpMatrix::kUp, "_proj")).dtype = DType::kBF16;
  write_model(input_, tensors_);
  CompressRequest some = request("out");
  some.shapes.assign(kLayers, io::MlpShape{.gate = kRank, .up = kRank});
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
  EXPECT_EQ(config->compression->align, "");
  EXPECT_EQ(config->compression->ranks.at(2).gate, kRank);
  EXPECT_EQ(config->compression->ranks.at(2).down, 0);

  EXPECT_EQ(summary.parameters_before, before->parameters());
  EXPECT_EQ(summary.parameters_after, after->parameters());
  EXPECT_EQ(summary.bytes_after, after->size_bytes());
  EXPECT_EQ(summary.plan.parameters_before, before->parameters());
  EXPECT_EQ(summary.plan.parameters_after, after->parameters());
  EXPECT_EQ(bytes("out", "tokenizer.json"), text::small_tokenizer().dump());
  EXPECT_TRUE(fs::exists(path("out") / "generation_config.json"));
  EXPECT_FALSE(fs::exists(path("out") / "work"));
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

// The record has names without folders, hashes of whole files, and the number of tokens used of
// each text.
TEST_F(Compress, TheRecordNamesTheCalibrationTexts) {
  const auto record = [&](const std::string& out) {
    const auto config = io::ModelConfig::load(path(out) / "config.json");
    return config.ok() ? config->compression.value() : io::CompressionRecord{};
  };
  const std::string other = random_text(400, 9);
  CompressRequest both = request("both");
  both.calibration = {{{"/secret/place/text.txt", text_}, {"-", other}}, 600};
  both.statistics = path("statistics");
  run_well(both);
  const auto texts = record("both").calibration;
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0].name, "text.txt");
  EXPECT_EQ(texts[0].xxh3, io::checksum(text_));
  EXPECT_EQ(texts[0].bytes, std::ssize(text_));
  EXPECT_EQ(texts[1].name, "standard input");
  EXPECT_EQ(texts[1].xxh3, io::checksum(other));
  EXPECT_GT(texts[0].tokens, 250);
  EXPECT_GT(texts[1].tokens, 250);
  EXPECT_LE(texts[0].tokens + texts[1].tokens, 600);

  CompressRequest saved = request("saved");
  saved.calibration.reset();
  saved.statistics = both.statistics;
  run_well(saved);
  ASSERT_EQ(record("saved").calibration.size(), 2u);
  EXPECT_EQ(record("saved").calibration[1].xxh3, io::checksum(other));

  // Method svd only measures on a text, so the text does not count as calibration.
  CompressRequest svd = request("svd", Method::kSvd);
  svd.calibration = {{{"text.txt", text_}}};
  run_well(svd);
  EXPECT_TRUE(record("svd").calibration.empty());
  EXPECT_EQ(record("svd").method, "svd");
}

TEST_F(Compress, ThreadsDoNotChangeTheModel) {
  for (const Method method : {Method::kWhitened, Method::kSvd}) {
    expect_threads_change_nothing(request("", method));
  }
}

TEST_F(Compress, ShardsHoldTheSameTensors) {
  const auto checkpoint = io::Checkpoint::open(input_.path());
  const auto plan = make_plan(config_, {0.25, 4}, kOriginal, "model");
  ASSERT_TRUE(checkpoint.ok() && plan.ok());
  fs::create_directories(path("staging"));
  const auto reports =
      factorize_model({.checkpoint = *checkpoint,
                       .config = config_,
                       .backend = backend_,
                       .text = nullptr,
                       .progress = silent_},
                      *plan, std::nullopt, GramSource(), path("staging"), OnMatrix());
  ASSERT_TRUE(reports.ok()) << reports.error().message;
  fs::create_directories(path("single"));
  fs::create_directories(path("sharded"));
  const fs::path work = path("staging");
  const ModelSource source = {*checkpoint, config_, plan->matrices, work};
  const auto write = [&](const char* folder, int64_t max_shard_bytes) {
    return compress::write_model(source, io::Quantization{}, path(folder), silent_,
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
  expect_refused(none, {"method whitened needs calibration, self_generated or statistics"});
  CompressRequest svd = request("out", Method::kSvd);
  svd.statistics = path("statistics");
  expect_refused(svd, {"method svd", "statistics has no use"});
}

TEST_F(Compress, RefusesTextsThatAreTooShort) {
  for (const int64_t length : {0, 1, 31}) {
    CompressRequest tiny = request("out");
    tiny.calibration->texts[0].text = random_text(length, 1);
    expect_refused(tiny, {"text.txt", "32", fmt::format("found {} tokens", length)});
  }
  CompressRequest limited = request("out");
  limited.calibration->max_tokens = 20;
  expect_refused(limited, {"text.txt", "32", "found 500 tokens and used 20"});
  CompressRequest enough = request("out");
  enough.calibration->texts[0].text = random_text(32, 1);
  EXPECT_EQ(run_well(enough).calibration_tokens, 32);
}

TEST_F(Compress, SeveralTextsAreSampledEvenly) {
  const auto tokenizer = text::Tokenizer::load(input_.path());
  ASSERT_TRUE(tokenizer.ok());
  // Every letter is one token, so the id of a token shows which text it comes from.
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
  // The short text gives all of its 100 tokens and the others 500 each, except for tokens that
  // sequences of equal length leave over.
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

// Folder names of the machine appear in no file of the new model, which may be published. Runs with
// texts and models in other folders write the same bytes.
TEST_F(Compress, TheFolderSaysNothingOfTheMachine) {
  nlohmann::json config = nlohmann::json::parse(model::config_json(config_));
  for (const std::string home : {"/home/somebody", "/data"}) {
    config["_name_or_path"] = home + "/models/Dense-1B";
    input_.write_text("config.json", config.dump());
    CompressRequest compress_request = request(home == "/data" ? "second/out" : "first/out");
    compress_request.calibration = {{{home + "/texts/story.txt", text_}}};
    run_well(compress_request);
  }
  for (const auto& entry : fs::recursive_directory_iterator(path("first/out"))) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    const std::string content = bytes("first/out", name);
    EXPECT_EQ(content.find("/home/somebody"), std::string::npos) << name;
    EXPECT_EQ(content.find(path("first").string()), std::string::npos) << name;
    EXPECT_EQ(content, bytes("second/out", name)) << name;
  }
  EXPECT_NE(bytes("first/out", "README.md").find("story.txt fnv1a:"), std::string::npos);
  EXPECT_NE(bytes("first/out", "config.json").find("\"Dense-1B\""), std::string::npos);
}

// Every letter is one token, and the calibration uses exactly the letters 'a'.
TEST_F(Compress, TheResultIsMeasuredOnTokensThatCalibrationHasNotSeen) {
  const auto tokenizer = text::Tokenizer::load(input_.path());
  ASSERT_TRUE(tokenizer.ok());
  const auto total = [](const std::vector<std::vector<text::TokenId>>& sequences) {
    int64_t tokens = 0;
    for (const auto& sequence : sequences) tokens += std::ssize(sequence);
    return tokens;
  };
  const std::string text = std::string(64, 'a') + std::string(5000, 'b');
  const auto rich = calibration_sequences(*tokenizer, {{"text", text}}, 64, config_);
  ASSERT_TRUE(rich.ok()) << rich.error().message;
  ASSERT_EQ(total(rich->sequences), 64);
  EXPECT_TRUE(rich->measured_held_out);
  EXPECT_EQ(total(rich->measured), kMeasuredTokens);
  for (const auto& sequence : rich->measured) {
    for (const text::TokenId id : sequence) EXPECT_NE(id, rich->sequences[0][0]);
  }
  const auto poor = calibration_sequences(*tokenizer, {{"text", text}}, 5000, config_);
  ASSERT_TRUE(poor.ok()) << poor.error().message;
  EXPECT_FALSE(poor->measured_held_out);
  EXPECT_GE(total(poor->measured), kMeasuredTokens - 64);
  EXPECT_LE(total(poor->measured), kMeasuredTokens + 64);
}

TEST_F(Compress, TheModelCardSaysWhatWasMeasured) {
  std::vector<std::vector<text::TokenId>> seen;
  const MeasureLoss measure = [&](const fs::path& folder, const auto& sequences) {
    EXPECT_TRUE(io::Checkpoint::open(folder).ok());
    EXPECT_FALSE(fs::exists(path(seen.empty() ? "out" : "svd"))) << "measured before the commit";
    seen = sequences;
    return Result<MeasuredLoss>(MeasuredLoss{991, 0.1234, 12.5, 13.75});
  };
  nlohmann::json config = nlohmann::json::parse(model::config_json(config_));
  config["_name_or_path"] = "someone/Dense-1B";
  input_.write_text("config.json", config.dump());
  input_.write_text("README.md", "---\nlicense: mit\n---\nThe dense model is perfect.");
  CompressRequest request = this->request("out");
  const auto summary = compress(request, backend_, silent_, {}, measure);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_FALSE(seen.empty());
  ASSERT_TRUE(summary->loss.has_value());
  EXPECT_FALSE(summary->loss->held_out);  // all tokens are in the calibration
  const auto card = io::read_text_file(path("out") / "README.md", io::kMaxConfigBytes);
  ASSERT_TRUE(card.ok());
  for (const char* word :
       {"---\nlibrary_name: transformers\npipeline_tag: text-generation\nbase_model: "
        "someone/Dense-1B\nbase_model_relation: quantized\nlicense: mit\ntags:\n- neuronmm\n- "
        "low-rank\n---\n",
        "# out: ", ", low-rank MLP weights\n", "trust_remote_code=True", "whitened", "KL 0.1234",
        "13.75", "dense 12.50", "991 tokens of the calibration text", "text.txt",
        "neuronmm inspect out"}) {
    EXPECT_NE(card->find(word), std::string::npos) << word << " in:\n" << *card;
  }
  EXPECT_EQ(card->find("perfect"), std::string::npos);
  // Method svd uses no calibration text.
  request.method = Method::kSvd;
  request.out = path("svd");
  const auto svd = compress(request, backend_, silent_, {}, measure);
  ASSERT_TRUE(svd.ok()) << svd.error().message;
  EXPECT_TRUE(svd->loss->held_out);
}

TEST_F(Compress, AFailedMeasurementKeepsTheWork) {
  const MeasureLoss failing = [](const fs::path&, const auto&) {
    return Result<MeasuredLoss>(fail("no memory for it"));
  };
  const auto stopped = compress(request("out"), backend_, silent_, {}, failing);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().message, "no memory for it");
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_FALSE(run_well(request("out")).loss.has_value());
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
  write_model(input_, tensors_);
  expect_refused(request("out", Method::kSvd), {"layer 1 down", "NaN"});
  expect_refused(request("out2"), {"layer 1", "NaN", "calibration"});
  values[7] = saved;
  model::TestTensors halves = tensors_;
  for (auto& [name, tensor] : halves) tensor.dtype = DType::kF16;
  // The inputs are so small that the first factor must be too large for fp16.
  std::ranges::fill(halves.at("model.layers.1.post_attention_layernorm.weight").values, 1e-6f);
  std::ranges::fill(halves.at(mlp_name(1, MlpMatrix::kGate, "_proj")).values, 6e4f);
  write_model(input_, halves);
  expect_refused(request("out"), {"layer 1 gate", "beyond", "F16"});
  tensors_.erase(mlp_name(2, MlpMatrix::kGate, "_proj"));
  write_model(input_, tensors_);
  expect_refused(request("out3", Method::kSvd), {"model.layers.2.mlp.gate_proj.weight"});
  EXPECT_FALSE(fs::exists(path("out3.partial")));
}

TEST_F(Compress, RefusesOutputsThatMustNotBeTouched) {
  CompressRequest onto_input = request("out", Method::kSvd);
  onto_input.out = input_.path();
  onto_input.force = true;
  expect_refused(onto_input, {"input"});
  run_well(request("out", Method::kSvd));
  expect_refused(request("out", Method::kSvd), {path("out").string(), "already exists"});
  CompressRequest forced = request("out", Method::kSvd);
  forced.force = true;
  forced.rule.ratio = 0.5;
  EXPECT_EQ(run_well(forced).matrices.at(0).rank, 12);

  fs::create_directories(path("other.partial"));
  std::ofstream(path("other.partial") / "precious") << "keep me";
  expect_refused(request("other", Method::kSvd), {"other.partial", "other files"});
  EXPECT_TRUE(fs::exists(path("other.partial") / "precious"));
}

}  // namespace
}  // namespace neuronmm::compress
