// Tests whole models whose weights another program has rounded. Their logits must have the same
// bits as those of a folder with the values in fp32, which is written from the codes by the formula
// of base/coded_values.h.

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <set>

#include <nlohmann/json.hpp>

#include "base/float16.h"
#include "io/model_folder.h"
#include "io/safetensors_writer.h"
#include "model/backends.h"
#include "model/tensor_specs.h"
#include "model/tiny_model.h"

namespace neuronmm::model {
namespace {

constexpr uint64_t kSeed = 11;
constexpr int64_t kGroup = 8;

struct StoredTensor {
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};
using StoredTensors = std::map<std::string, StoredTensor>;

template <typename T>
StoredTensor stored(DType dtype, Shape shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

StoredTensor stored(const TestTensor& tensor) {
  StoredTensor result = {tensor.dtype, tensor.shape, {}};
  append_rounded(tensor.dtype, tensor.values.data(), std::ssize(tensor.values), result.bytes);
  return result;
}

// A matrix [rows, columns] of codes of 4 bits, its values, and its scales and zero points per
// group.
struct Codes {
  int64_t rows, columns, groups;
  std::vector<uint32_t> q = {}, zeros = {};  // [rows, columns], [rows, groups]
  std::vector<f16> scales = {};              // [rows, groups]
  std::vector<int32_t> group_of = {};        // [columns]
  std::vector<float> values = {};            // [rows, columns]

  uint32_t code(int64_t n, int64_t k) const { return q[static_cast<size_t>(n * columns + k)]; }
  uint32_t zero(int64_t n, int64_t g) const { return zeros[static_cast<size_t>(n * groups + g)]; }
};

Codes draw(int64_t rows, int64_t columns, bool permuted, std::mt19937_64& random) {
  Codes codes = {.rows = rows, .columns = columns, .groups = (columns + kGroup - 1) / kGroup};
  for (int64_t k = 0; k < columns; ++k) codes.group_of.push_back(static_cast<int32_t>(k / kGroup));
  if (permuted) std::shuffle(codes.group_of.begin(), codes.group_of.end(), random);
  for (int64_t i = 0; i < rows * columns; ++i) {
    codes.q.push_back(static_cast<uint32_t>(random() % 16));
  }
  for (int64_t i = 0; i < rows * codes.groups; ++i) {
    codes.zeros.push_back(static_cast<uint32_t>(1 + random() % 15));
    codes.scales.push_back(f16::from_float(1e-3f * static_cast<float>(5 + random() % 60)));
  }
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t k = 0; k < columns; ++k) {
      const int64_t g = codes.group_of[static_cast<size_t>(k)];
      const float step =
          static_cast<float>(codes.code(n, k)) - static_cast<float>(codes.zero(n, g));
      codes.values.push_back(codes.scales[static_cast<size_t>(n * codes.groups + g)].to_float() *
                             step);
    }
  }
  return codes;
}

// Packs fields (i, j) of 4 bits. Place p of word [i, w] holds field j = 8w + order[p].
StoredTensor packed(int64_t rows, int64_t columns,
                    const std::function<uint32_t(int64_t, int64_t)>& field,
                    const std::array<int, 8>& order = {0, 1, 2, 3, 4, 5, 6, 7}) {
  std::vector<uint32_t> words;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t w = 0; w < (columns + 7) / 8; ++w) {
      uint32_t word = 0;
      for (int p = 0; p < 8; ++p) {
        const int64_t j = 8 * w + order[static_cast<size_t>(p)];
        if (j < columns) word |= field(i, j) << (4 * p);
      }
      words.push_back(word);
    }
  }
  return stored(DType::kI32, {rows, (columns + 7) / 8}, words);
}

// Exchanges the rows and columns of 32-bit words.
StoredTensor transposed(const StoredTensor& words) {
  const int64_t rows = words.shape[0], columns = words.shape[1];
  StoredTensor result = {words.dtype, {columns, rows}, {}};
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      const auto* const from = words.bytes.data() + (i * columns + j) * 4;
      result.bytes.insert(result.bytes.end(), from, from + 4);
    }
  }
  return result;
}

// Scales with a row per group.
StoredTensor scales_by_group(const Codes& codes) {
  std::vector<f16> scales;
  for (int64_t g = 0; g < codes.groups; ++g) {
    for (int64_t n = 0; n < codes.rows; ++n) {
      scales.push_back(codes.scales[static_cast<size_t>(n * codes.groups + g)]);
    }
  }
  return stored(DType::kF16, {codes.groups, codes.rows}, scales);
}

using Pack = void (*)(const std::string& stem, const Codes& codes, StoredTensors& out);

void pack_gptq(const std::string& stem, const Codes& codes, StoredTensors& out) {
  out[stem + ".qweight"] = transposed(
      packed(codes.rows, codes.columns, [&](int64_t n, int64_t k) { return codes.code(n, k); }));
  out[stem + ".qzeros"] =
      packed(codes.groups, codes.rows, [&](int64_t g, int64_t n) { return codes.zero(n, g) - 1; });
  out[stem + ".scales"] = scales_by_group(codes);
  out[stem + ".g_idx"] = stored(DType::kI32, {codes.columns}, codes.group_of);
}

void pack_awq(const std::string& stem, const Codes& codes, StoredTensors& out) {
  constexpr std::array<int, 8> kOrder = {0, 2, 4, 6, 1, 3, 5, 7};
  out[stem + ".qweight"] = packed(
      codes.columns, codes.rows, [&](int64_t k, int64_t n) { return codes.code(n, k); }, kOrder);
  out[stem + ".qzeros"] = packed(
      codes.groups, codes.rows, [&](int64_t g, int64_t n) { return codes.zero(n, g); }, kOrder);
  out[stem + ".scales"] = scales_by_group(codes);
}

void pack_compressed(const std::string& stem, const Codes& codes, StoredTensors& out) {
  out[stem + ".weight_packed"] =
      packed(codes.rows, codes.columns, [&](int64_t n, int64_t k) { return codes.code(n, k); });
  out[stem + ".weight_zero_point"] = transposed(
      packed(codes.groups, codes.rows, [&](int64_t g, int64_t n) { return codes.zero(n, g); }));
  out[stem + ".weight_scale"] = stored(DType::kF16, {codes.rows, codes.groups}, codes.scales);
  out[stem + ".weight_shape"] =
      stored(DType::kI64, {2}, std::vector<int64_t>{codes.rows, codes.columns});
}

struct Method {
  std::string name;
  Pack pack;
  bool permuted;
  const char* entry;
};
const Method kMethodsOfModels[] = {
    {"gptq", pack_gptq, true,
     R"({"quant_method":"gptq","bits":4,"group_size":8,"desc_act":true,"sym":false})"},
    {"awq", pack_awq, false,
     R"({"quant_method":"awq","bits":4,"group_size":8,"version":"gemm","zero_point":true})"},
    {"compressed-tensors", pack_compressed, false,
     R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":
        {"targets":["Linear"],"weights":{"num_bits":4,"type":"int","symmetric":false,
        "strategy":"group","group_size":8}}}})"}};

io::ModelConfig config_of_multiples_of_8(io::Architecture architecture) {
  io::ModelConfig config = tiny_config(architecture);
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 24;
  return config;
}

// Two folders of one model: one with codes, the other with their values.
class ForeignModel : public OnBackend {
 protected:
  // Rounds the linear weights that `rounded` accepts.
  void write(const Method& method, const io::ModelConfig& config,
             const std::function<bool(const std::string&)>& rounded) {
    std::mt19937_64 random(kSeed);
    TestTensors floats = random_tensors(config, kSeed);
    StoredTensors codes;
    for (auto& [name, tensor] : floats) {
      if (!is_linear(name, config) || !rounded(name)) {
        codes[name] = stored(tensor);
        continue;
      }
      const Codes drawn = draw(tensor.shape[0], tensor.shape[1], method.permuted, random);
      method.pack(name.substr(0, name.rfind('.')), drawn, codes);
      tensor.values = drawn.values;
    }
    floats_.write_tensors(floats);
    floats_.write_text("config.json", config_json(config));
    auto document = nlohmann::json::parse(config_json(config));
    document["quantization_config"] = nlohmann::json::parse(method.entry);
    codes_.write_text("config.json", document.dump());
    write_stored(codes);
  }
  void write_stored(const StoredTensors& tensors) {
    std::vector<io::TensorSpec> specs;
    for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.dtype, tensor.shape});
    auto writer = io::SafetensorsWriter::create(codes_.path() / "model.safetensors", specs);
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    for (const auto& [name, tensor] : tensors) ASSERT_TRUE(writer->append(tensor.bytes).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  void expect_same_logits() {
    const auto of_codes = Transformer::load(codes_.path(), *backend);
    ASSERT_TRUE(of_codes.ok()) << of_codes.error().message;
    const auto of_floats = Transformer::load(floats_.path(), *backend);
    ASSERT_TRUE(of_floats.ok()) << of_floats.error().message;
    const auto tokens = random_tokens(9, 24, kSeed);
    const Matrix found = all_logits(*of_codes, tokens), expected = all_logits(*of_floats, tokens);
    for (int64_t i = 0; i < found.rows(); ++i) {
      for (int64_t j = 0; j < found.columns(); ++j) {
        ASSERT_EQ(found.row(i)[j], expected.row(i)[j]) << i << ", " << j;
      }
    }
  }

  ModelFolder codes_, floats_;
};
NMM_ON_ALL_BACKENDS(ForeignModel);

TEST_P(ForeignModel, LogitsAreThoseOfTheValues) {
  for (const Method& method : kMethodsOfModels) {
    SCOPED_TRACE(method.name);
    write(method, config_of_multiples_of_8(io::Architecture::kLlama),
          [](const std::string&) { return true; });
    expect_same_logits();
  }
}

TEST_P(ForeignModel, BiasesAndModulesInFloatsAreRead) {
  for (const Method& method : kMethodsOfModels) {
    SCOPED_TRACE(method.name);
    write(method, config_of_multiples_of_8(io::Architecture::kQwen2), [](const std::string& name) {
      return name != "lm_head.weight" && !name.starts_with("model.layers.1.mlp.");
    });
    expect_same_logits();
  }
}

// Phi-3 is Llama with two fused matrices, whose codes are cut by rows.
TEST_P(ForeignModel, RowsOfFusedMatricesAreCut) {
  const io::ModelConfig config = config_of_multiples_of_8(io::Architecture::kLlama);
  for (const Method& method : kMethodsOfModels) {
    SCOPED_TRACE(method.name);
    std::mt19937_64 random(kSeed);
    TestTensors floats = random_tensors(config, kSeed);
    StoredTensors codes;
    const auto fuse = [&](const std::string& layer, const std::string& fused,
                          const std::vector<std::string>& parts) {
      int64_t rows = 0;
      for (const std::string& part : parts) rows += floats.at(layer + part + ".weight").shape[0];
      const Codes drawn = draw(rows, 32, method.permuted, random);
      method.pack(layer + fused, drawn, codes);
      auto value = drawn.values.begin();
      for (const std::string& part : parts) {
        std::vector<float>& values = floats.at(layer + part + ".weight").values;
        const auto end = value + std::ssize(values);
        values.assign(value, end);
        value = end;
      }
    };
    std::set<std::string> fused;
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      const std::vector<std::string> attention = {"self_attn.q_proj", "self_attn.k_proj",
                                                  "self_attn.v_proj"};
      const std::vector<std::string> mlp = {"mlp.gate_proj", "mlp.up_proj"};
      fuse(layer, "self_attn.qkv_proj", attention);
      fuse(layer, "mlp.gate_up_proj", mlp);
      for (const std::string& part : attention) fused.insert(layer + part + ".weight");
      for (const std::string& part : mlp) fused.insert(layer + part + ".weight");
    }
    for (const auto& [name, tensor] : floats) {
      if (!fused.contains(name)) codes[name] = stored(tensor);
    }
    floats_.write_tensors(floats);
    floats_.write_text("config.json", config_json(config));
    auto document = nlohmann::json::parse(config_json(config));
    document["architectures"] = {"Phi3ForCausalLM"};
    document["model_type"] = "phi3";
    document["quantization_config"] = nlohmann::json::parse(method.entry);
    codes_.write_text("config.json", document.dump());
    write_stored(codes);
    expect_same_logits();
  }
}

// A command that writes another folder begins with a config that lacks the entry.
TEST_P(ForeignModel, OtherFoldersOfTheModelHaveNoSuchEntry) {
  write(kMethodsOfModels[0], config_of_multiples_of_8(io::Architecture::kLlama),
        [](const std::string&) { return true; });
  const auto model = io::open_model(codes_.path());
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto text = io::config_text(model->checkpoint);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(text->find("quantization_config"), std::string::npos);
  EXPECT_NE(text->find("hidden_size"), std::string::npos);
}

TEST_P(ForeignModel, AMatrixOfAnotherShapeIsNamed) {
  io::ModelConfig config = config_of_multiples_of_8(io::Architecture::kLlama);
  write(kMethodsOfModels[0], config, [](const std::string&) { return true; });
  config.intermediate_size = 40;
  auto document = nlohmann::json::parse(config_json(config));
  document["quantization_config"] = nlohmann::json::parse(kMethodsOfModels[0].entry);
  codes_.write_text("config.json", document.dump());
  const auto loaded = Transformer::load(codes_.path(), *backend);
  ASSERT_FALSE(loaded.ok());
  for (const std::string_view word : {"gate_proj.weight", "[40, 32]", "[48, 32]"}) {
    EXPECT_NE(loaded.error().message.find(word), std::string::npos) << loaded.error().message;
  }
}

}  // namespace
}  // namespace neuronmm::model
