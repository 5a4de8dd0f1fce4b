#include "gguf/demo_gguf.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/float16.h"
#include "gguf/gguf_builder.h"
#include "io/checkpoint.h"
#include "places.h"

namespace neuronmm::gguf {
namespace {

using io::GgufBuilder;
using io::little_endian;

constexpr int64_t kHeads = 6, kKeyValueHeads = 2;
constexpr uint32_t kBf16Type = 30, kQ8_0Type = 8;

void add_settings(GgufBuilder& builder) {
  builder.text("general.architecture", "llama").u32("llama.context_length", 512);
  builder.u32("llama.embedding_length", 384).u32("llama.block_count", 4);
  builder.u32("llama.feed_forward_length", 1024).u32("llama.attention.head_count", kHeads);
  builder.u32("llama.attention.head_count_kv", kKeyValueHeads);
  builder.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  builder.f32("llama.rope.freq_base", 10000.0f);
}

void add_vocabulary(GgufBuilder& builder) {
  std::ifstream file(source_dir() / "models/demo/tokenizer.json");
  const auto tokenizer = nlohmann::json::parse(file);
  std::vector<std::string> tokens(2048);
  std::vector<int32_t> kinds(tokens.size(), 1);
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) tokens[id] = token;
  for (const auto& token : tokenizer["added_tokens"]) {
    tokens[token["id"]] = token["content"];
    kinds[token["id"]] = 3;
  }
  // This name of GGUF stands for the pattern of the model's tokenizer.json.
  builder.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "dbrx");
  builder.texts("tokenizer.ggml.tokens", tokens);
  builder.numbers<int32_t>("tokenizer.ggml.token_type", 5, kinds);
  builder.texts("tokenizer.ggml.merges", tokenizer["model"]["merges"]);
  builder.u32("tokenizer.ggml.bos_token_id", 2046).u32("tokenizer.ggml.eos_token_id", 2047);
  builder.boolean("tokenizer.ggml.add_bos_token", true);
}

// Returns the name of a tensor in GGUF: "blk.3.ffn_up.weight".
std::string gguf_name(const std::string& name) {
  static const std::map<std::string, std::string> names = {
      {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},   {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  const std::string rest = name.substr(std::string("model.layers.").size());
  const size_t dot = rest.find('.');
  const std::string module = rest.substr(dot + 1, rest.rfind('.') - dot - 1);
  return "blk." + rest.substr(0, dot) + "." + names.at(module) + ".weight";
}

// Returns the values with the rows of q and k as llama.cpp has them: pairs are neighbours.
std::vector<float> stored_values(const std::string& name, const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  to_floats(tensor, 0, tensor.size(), values.data());
  const bool q = name.find("q_proj") != name.npos, k = name.find("k_proj") != name.npos;
  if (!q && !k) return values;
  const int64_t columns = tensor.columns(), rows = tensor.rows();
  const int64_t head_rows = rows / (q ? kHeads : kKeyValueHeads), half = head_rows / 2;
  std::vector<float> stored(values.size());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t in_head = row % head_rows;
    const int64_t to = row - in_head + in_head % half * 2 + in_head / half;
    std::copy_n(values.begin() + row * columns, columns, stored.begin() + to * columns);
  }
  return stored;
}

std::string bf16_bytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += little_endian(bf16::from_float(value).bits);
  return bytes;
}

std::string q8_0_bytes(const std::vector<float>& values) {
  std::string bytes;
  for (size_t block = 0; block < values.size(); block += 32) {
    float largest = 0;
    for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[block + i]));
    const f16 d = f16::from_float(largest / 127);
    bytes += little_endian(d.bits);
    for (size_t i = 0; i < 32; ++i)
      bytes += static_cast<char>(std::lround(values[block + i] / d.to_float()));
  }
  return bytes;
}

}  // namespace

std::string demo_gguf(DemoMatrices matrices) {
  GgufBuilder builder;
  add_settings(builder);
  add_vocabulary(builder);
  const auto model = io::Checkpoint::open(source_dir() / "models/demo");
  NMM_CHECK(model.ok());
  for (const auto& [name, tensor] : model->tensors()) {
    const std::vector<float> values = stored_values(name, tensor);
    std::vector<uint64_t> extents(tensor.shape.rbegin(), tensor.shape.rend());
    if (matrices == DemoMatrices::kBf16 || extents.size() == 1)
      builder.tensor(gguf_name(name), extents, kBf16Type, bf16_bytes(values));
    else
      builder.tensor(gguf_name(name), extents, kQ8_0Type, q8_0_bytes(values));
  }
  return builder.bytes();
}

}  // namespace neuronmm::gguf
