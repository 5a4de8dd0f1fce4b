// Exports compressed and rounded models, and compares what opens again with the folders.

#include <cmath>

#include "gguf/mounted_gguf.h"
#include "gguf_out/export_gguf.h"
#include "io/io_test.h"
#include "io/model_folder.h"
#include "model/tiny_model.h"
#include "model/weight_reader.h"
#include "ops/reference.h"

namespace neuronmm::gguf_out {
namespace {

using io::Architecture;
using io::MlpShape;

// Rows that 32 divides.
io::ModelConfig wide_config(Architecture architecture, bool tied = false) {
  io::ModelConfig config = model::tiny_config(architecture);
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.head_dim = 16;
  config.tie_word_embeddings = tied;
  return config;
}

class GgufOfCompressed : public testing::Test {
 protected:
  void SetUp() override { io::set_mount_opener(gguf::open_mounted); }
  void TearDown() override { io::set_mount_opener(nullptr); }

  void write(const io::ModelConfig& config, const model::TestTensors& tensors) const {
    folder_.write_tensors(tensors);
    folder_.write_text("config.json", model::config_json(config));
  }
  Result<GgufSummary> exported(const std::string& type) const {
    Progress silent;
    return export_gguf({.model = folder_.path(), .out = file(), .type = type, .force = true}, {},
                       silent);
  }
  std::filesystem::path file() const { return root_ / "m.gguf"; }

  // Compares the logits of the folder and of the file.
  void expect_same_logits(float tolerance) const {
    const auto reference = ops::make_reference_backend();
    const auto before = model::Transformer::load(folder_.path(), *reference);
    const auto after = model::Transformer::load(file(), *reference);
    ASSERT_TRUE(before.ok()) << before.error().message;
    ASSERT_TRUE(after.ok()) << after.error().message;
    const auto tokens = model::random_tokens(12, 19, 3);
    const Matrix wanted = model::all_logits(*before, tokens);
    const Matrix found = model::all_logits(*after, tokens);
    float largest = 0.0f, error = 0.0f;
    for (int64_t i = 0; i < wanted.rows() * wanted.columns(); ++i) {
      largest = std::max(largest, std::abs(wanted.data()[i]));
      error = std::max(error, std::abs(wanted.data()[i] - found.data()[i]));
    }
    EXPECT_LE(error, tolerance * largest);
    EXPECT_GT(largest, 0.0f);
  }

  // Exports a model with this record, and checks the architecture and the logits.
  void expect_export(io::ModelConfig config, const io::CompressionRecord& record,
                     const std::string& architecture) const {
    config.compression = record;
    write(config, model::random_tensors(config, 5));
    const auto summary = exported("F32");
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    EXPECT_EQ(summary->architecture, architecture);
    expect_same_logits(1e-5f);
  }

  const io::TemporaryFolder root_;
  const model::ModelFolder folder_;
};

io::CompressionRecord unequal() {
  return model::tiny_record("neurons", {MlpShape{.neurons = 40}, MlpShape{.neurons = 96}});
}

TEST_F(GgufOfCompressed, LayersOfUnequalSizesHaveAnArchitecture) {
  expect_export(wide_config(Architecture::kLlama), unequal(), "deci");
  expect_export(wide_config(Architecture::kMistral), unequal(), "deci");
  expect_export(wide_config(Architecture::kQwen2), unequal(), "deci");
  expect_export(wide_config(Architecture::kQwen3, true), unequal(), "openelm");
  const auto config = io::ModelConfig::load(file() / "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  ASSERT_TRUE(config->compression);
  EXPECT_EQ(config->compression->form, "neurons");
  EXPECT_EQ(config->compression->ranks.at(0).neurons, 40);
  EXPECT_EQ(config->compression->method, unequal().method);
}

TEST_F(GgufOfCompressed, OtherArchitecturesGetNeuronsOfZeros) {
  expect_export(wide_config(Architecture::kQwen3, false), unequal(), "qwen3");
  const auto summary = exported("F32");
  ASSERT_TRUE(summary.ok());
  ASSERT_FALSE(summary->notes.empty());
  EXPECT_NE(summary->notes.front().find("96 neurons (41 % more weights in MLPs)"),
            std::string::npos)
      << summary->notes.front();
}

TEST_F(GgufOfCompressed, EqualSizesKeepTheArchitecture) {
  const auto record =
      model::tiny_record("neurons", {MlpShape{.neurons = 40}, MlpShape{.neurons = 40}});
  expect_export(wide_config(Architecture::kLlama), record, "llama");
}

TEST_F(GgufOfCompressed, FactorsAndPivotsAreMultipliedOut) {
  const auto config = wide_config(Architecture::kLlama);
  const MlpShape factors{.gate = 20, .up = 30, .down = 25};
  expect_export(config, model::tiny_record("uv", {factors, MlpShape{.down = 12}}), "llama");
  expect_export(config, model::tiny_record("pivoted", {factors, factors}), "llama");
  const MlpShape narrow{.down = 48, .input = 40};
  expect_export(config, model::tiny_record("narrow", {narrow, narrow}), "llama");
  const MlpShape mixed{.down = 48, .input = 40, .neurons = 64};
  expect_export(config, model::tiny_record("mixed", {mixed, narrow}), "deci");
  const auto summary = exported("F32");
  ASSERT_TRUE(summary.ok());
  EXPECT_NE(summary->notes.back().find("no tokenizer.json"), std::string::npos);
  EXPECT_NE(summary->notes.at(summary->notes.size() - 2).find("save nothing"), std::string::npos);
}

TEST_F(GgufOfCompressed, SizesAreMultiplesOfABlock) {
  io::ModelConfig config = wide_config(Architecture::kLlama);
  config.compression = unequal();
  write(config, model::random_tensors(config, 5));
  const auto summary = exported("Q8_0");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto read = io::ModelConfig::load(file() / "config.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->compression->ranks.at(0).neurons, 64);
  expect_same_logits(0.05f);
}

// Compares all matrices of the folder and the file, bit by bit.
void expect_same_values(const std::filesystem::path& folder, const std::filesystem::path& file) {
  const auto before = io::open_model(folder), after = io::open_model(file);
  ASSERT_TRUE(before.ok() && after.ok());
  int compared = 0;
  for (const auto& [name, tensor] : after->checkpoint.tensors()) {
    const auto weight =
        model::require_weight(before->checkpoint, before->config, name, tensor.shape);
    ASSERT_TRUE(weight.ok()) << weight.error().message;
    const int64_t columns = tensor.shape.back(), rows = tensor.size() / columns;
    std::vector<float> wanted(static_cast<size_t>(columns)), found(wanted.size());
    for (int64_t row = 0; row < rows; ++row) {
      ops::to_floats(*weight, row * columns, columns, wanted.data());
      neuronmm::to_floats(tensor, row * columns, columns, found.data());
      ASSERT_EQ(wanted, found) << name;
    }
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

TEST_F(GgufOfCompressed, WeightsOfFewBitsAreExactInQ8_0) {
  const std::map<int64_t, LowBitFormat> formats = {
      {8, {.bits = 8}}, {6, {.bits = 6}}, {4, {.bits = 4, .group = 32}}};
  for (const auto& [bits, format] : formats) {
    SCOPED_TRACE(bits);
    io::ModelConfig config = wide_config(Architecture::kLlama);
    // The first row of blocks of a group of 128 has a scale of its own.
    config.intermediate_size = 160;
    const io::Quantization quantization = {.format = format};
    const auto tensors =
        model::quantized_tensors(config, model::random_tensors(config, 5), quantization);
    config.quantization = quantization;
    write(config, tensors);
    const auto summary = exported(bits == 8 ? "" : "Q8_0");
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    EXPECT_EQ(summary->type, "Q8_0");
    expect_same_values(folder_.path(), file());
  }
}

TEST_F(GgufOfCompressed, OtherTypesOfFewBitsNameTheBetterSource) {
  io::ModelConfig config = wide_config(Architecture::kLlama);
  const io::Quantization quantization = {.format = {.bits = 4, .group = 32}};
  const auto tensors =
      model::quantized_tensors(config, model::random_tensors(config, 5), quantization);
  config.quantization = quantization;
  write(config, tensors);
  const auto summary = exported("Q4_0");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto names = [](const std::string& note) {
    return note.find("4 bits are rounded anew for Q4_0: the model that they were made of is") !=
           std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(summary->notes, names));
}

TEST_F(GgufOfCompressed, AFileIsExportedAgain) {
  const auto config = wide_config(Architecture::kLlama);
  write(config, model::random_tensors(config, 5));
  ASSERT_TRUE(exported("BF16").ok());
  Progress silent;
  const auto again =
      export_gguf({.model = file(), .out = root_ / "again.gguf", .type = "BF16"}, {}, silent);
  ASSERT_TRUE(again.ok()) << again.error().message;
  expect_same_values(file(), root_ / "again.gguf");
}

TEST_F(GgufOfCompressed, ValuesThatNoTypeHoldsAreRefused) {
  io::ModelConfig config = wide_config(Architecture::kLlama);
  auto tensors = model::random_tensors(config, 5);
  tensors.at("model.layers.1.mlp.up_proj.weight").values.at(7) = 70000.0f;
  write(config, tensors);
  EXPECT_TRUE(io::fails_with(exported("F16"), {"blk.1.ffn_up.weight", "70000", "--type BF16"}));
  EXPECT_TRUE(exported("BF16").ok());
  tensors.at("model.layers.1.mlp.up_proj.weight").values.at(7) = INFINITY;
  write(config, tensors);
  EXPECT_TRUE(io::fails_with(exported("BF16"), {"blk.1.ffn_up.weight", "finite"}));
  EXPECT_TRUE(std::filesystem::exists(file()));  // that of the run before
}

}  // namespace
}  // namespace neuronmm::gguf_out
