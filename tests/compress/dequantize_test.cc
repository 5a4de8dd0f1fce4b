// This file tests that models of 8, 6 and 4 bits become floats again. The test reads the bytes of
// the rounded folder as docs/reference/file_formats.md describes them, one value at a time, and
// compares the values.

#include "compress/dequantize.h"

#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

#include "compress/oracle.h"
#include "compress/quantize.h"
#include "cpu/backend.h"
#include "io/quantization.h"
#include "model/tensor_specs.h"
#include "model/tiny_model.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Returns a config with odd sizes: two whole groups of columns and a part of a third one.
io::ModelConfig odd_config(bool tied) {
  io::ModelConfig config = model::tiny_config(io::Architecture::kQwen3);
  config.hidden_size = 150;
  config.intermediate_size = 261;
  config.tie_word_embeddings = tied;
  return config;
}

io::Checkpoint open(const fs::path& folder) {
  auto checkpoint = io::Checkpoint::open(folder);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  return std::move(checkpoint).value();
}

const uint8_t* bytes(const io::Checkpoint& checkpoint, const std::string& name) {
  return reinterpret_cast<const uint8_t*>(checkpoint.tensors().at(name).data);
}

// Returns the integer that is multiplied by `scale` to give W[i, j].
int code_byte(const io::Checkpoint& folder, const std::string& name, const LowBitFormat& format,
              int64_t i, int64_t j, int64_t columns) {
  const int64_t halves = (columns + 1) / 2, quarters = (columns + 3) / 4;
  if (format.bits == 8) return static_cast<int8_t>(bytes(folder, name)[i * columns + j]);
  const uint8_t* const row =
      bytes(folder, name) + i * (format.bits == 6 ? halves + quarters : halves);
  const int low = (row[j / 2] >> (4 * (j % 2))) & 15;
  if (format.bits == 6) {
    const int high = (row[halves + j / 4] >> (2 * (j % 4))) & 3;
    return (high << 4 | low) - 32;
  }
  const int64_t groups = (columns + format.group - 1) / format.group;
  const int group = bytes(folder, name + "_group")[i * groups + j / format.group];
  const int sc = (group & 15) + 1, zz = (group >> 4) + 8;
  return sc * low - sc * zz / 2;
}

float scale(const io::Checkpoint& folder, const std::string& name, int64_t i, int64_t j,
            int64_t columns) {
  const int64_t groups = (columns + 127) / 128;
  const uint8_t* const stored = bytes(folder, name + "_scale") + 2 * (i * groups + j / 128);
  const uint32_t bits = static_cast<uint32_t>(stored[0] | stored[1] << 8) << 16;
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

class Dequantize : public testing::Test {
 protected:
  void SetUp() override { write(odd_config(false)); }

  void write(const io::ModelConfig& config) {
    config_ = config;
    input_.write_tensors(model::random_tensors(config, 20261124));
    input_.write_text("config.json", model::config_json(config_));
    input_.write_text("generation_config.json", "{\"eos_token_id\": 1}");
  }
  fs::path path(const std::string& name) const { return outputs_.path() / name; }

  void quantize_to(const std::string& out, const QuantizedFormats& formats) {
    const auto summary =
        quantize({.model = input_.path(), .out = path(out), .formats = formats, .force = true},
                 *backend_, silent_);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
  }

  // Compares every tensor of the folder "floats" with that of the folder "rounded".
  void expect_floats() {
    const auto rounded = open(path("rounded")), floats = open(path("floats"));
    const auto config = io::ModelConfig::load(path("rounded") / "config.json");
    ASSERT_TRUE(config.ok());
    size_t found = 0;
    for (const io::TensorSpec& spec : model::tensor_specs(*config)) {
      SCOPED_TRACE(spec.name);
      const TensorView& tensor = floats.tensors().at(spec.name);
      ASSERT_EQ(tensor.shape, spec.shape);
      ++found;
      if (!rounded.has(spec.name + "_scale")) {
        EXPECT_EQ(std::memcmp(tensor.data, bytes(rounded, spec.name),
                              static_cast<size_t>(tensor.size_bytes())),
                  0);
        continue;
      }
      ASSERT_EQ(tensor.dtype, DType::kF32);
      expect_values(rounded, tensor, spec.name, config->quantization->format_of(spec.name));
    }
    EXPECT_EQ(floats.tensors().size(), found);
  }
  static void expect_values(const io::Checkpoint& rounded, const TensorView& tensor,
                            const std::string& name, const LowBitFormat& format) {
    const int64_t columns = tensor.columns();
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t i = 0; i < tensor.rows(); ++i) {
      to_floats(tensor, i * columns, columns, row.data());
      for (int64_t j = 0; j < columns; ++j) {
        const auto byte = static_cast<float>(code_byte(rounded, name, format, i, j, columns));
        ASSERT_EQ(row[static_cast<size_t>(j)], byte * scale(rounded, name, i, j, columns))
            << i << ", " << j;
      }
    }
  }

  io::ModelConfig config_;
  model::ModelFolder input_, outputs_;
  Progress silent_;
  std::unique_ptr<ops::Backend> backend_ = cpu::make_backend();
};

TEST_F(Dequantize, EveryFormatGivesTheValuesOfItsBytes) {
  for (const bool tied : {false, true}) {
    write(odd_config(tied));
    for (const QuantizedFormats& formats : {quantized_formats(8), quantized_formats(6),
                                            quantized_formats(4), quantized_formats(4, 32, 4)}) {
      SCOPED_TRACE(testing::Message() << io::format_text(formats.linear) << " tied " << tied);
      quantize_to("rounded", formats);
      const Status made = dequantize(path("rounded"), path("floats"), silent_);
      ASSERT_TRUE(made.ok()) << made.error().message;
      expect_floats();
      EXPECT_TRUE(fs::exists(path("floats") / "generation_config.json"));
      EXPECT_FALSE(fs::exists(path("floats.partial")));
      const auto config = io::ModelConfig::load(path("floats") / "config.json");
      ASSERT_TRUE(config.ok()) << config.error().message;
      EXPECT_FALSE(config->quantization.has_value());
      EXPECT_EQ(config->dtype, DType::kF32);
    }
  }
}

// The indices of pivots and the record of the form stay the same.
TEST_F(Dequantize, ACompressedModelKeepsItsForm) {
  io::ModelConfig config = odd_config(false);
  config.compression = model::tiny_record("mixed", {{0, 0, 70, 100, 200}, {40, 130, 70}});
  write(config);
  quantize_to("rounded", quantized_formats(4));
  const Status made = dequantize(path("rounded"), path("floats"), silent_);
  ASSERT_TRUE(made.ok()) << made.error().message;
  expect_floats();
  const auto written = io::ModelConfig::load(path("floats") / "config.json");
  ASSERT_TRUE(written.ok()) << written.error().message;
  ASSERT_TRUE(written->compression.has_value());
  EXPECT_EQ(written->compression->ranks, config.compression->ranks);
}

// A dense model of floats loads in any program, because its folder mentions nothing of neuronmm.
TEST_F(Dequantize, ADenseModelIsOfThePublishedClass) {
  quantize_to("rounded", quantized_formats(8));
  ASSERT_TRUE(dequantize(path("rounded"), path("floats"), silent_).ok());
  const auto text = [&](const std::string& folder) {
    std::ifstream file(path(folder) / "config.json");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_NE(text("rounded").find("NeuronmmQwen3ForCausalLM"), std::string::npos);
  EXPECT_NE(text("floats").find("\"Qwen3ForCausalLM\""), std::string::npos) << text("floats");
  EXPECT_NE(text("floats").find("\"qwen3\""), std::string::npos);
  for (const char* ours : {"euronmm", "auto_map", "quantization"}) {
    EXPECT_EQ(text("floats").find(ours), std::string::npos) << text("floats");
  }
}

TEST_F(Dequantize, UnknownTensorsStayUnchanged) {
  auto tensors = model::random_tensors(config_, 20261124);
  tensors["model.of_others"] = {DType::kU8, {3}, {1, 2, 255}};
  input_.write_tensors(tensors);
  quantize_to("rounded", quantized_formats(4));
  const Status made = dequantize(path("rounded"), path("floats"), silent_);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto floats = open(path("floats"));
  EXPECT_EQ(floats.tensors().at("model.of_others").dtype, DType::kU8);
  EXPECT_EQ(bytes(floats, "model.of_others")[2], 255);
}

TEST_F(Dequantize, RefusesFloatModelsAndDamagedFiles) {
  const auto expect_error = [&](const fs::path& model, std::initializer_list<const char*> words) {
    const Status made = dequantize(model, path("floats"), silent_);
    ASSERT_FALSE(made.ok());
    for (const char* word : words) {
      EXPECT_NE(made.error().message.find(word), std::string::npos) << made.error().message;
    }
    EXPECT_FALSE(fs::exists(path("floats")));
  };
  expect_error(input_.path(), {input_.path().c_str(), "8, 6 or 4 bits", "floats"});
  expect_error(path("nowhere"), {"nowhere"});
  quantize_to("rounded", quantized_formats(4));
  fs::resize_file(path("rounded") / "model.safetensors", 20000);
  expect_error(path("rounded"), {"model.safetensors"});
}

}  // namespace
}  // namespace neuronmm::compress
