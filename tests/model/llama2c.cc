#include "model/llama2c.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>

namespace neuronmm::model {
namespace {

template <typename T>
std::vector<T> read_values(std::ifstream& file, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(T)));
  NMM_CHECK(file.good());
  return values;
}

// Converts the order of rows. llama2.c rotates neighbours (2j, 2j + 1) of a head, and Hugging Face
// rotates halves (j, j + head_dim/2). Row 2j + h of each head of q and k therefore moves to row j +
// h · head_dim/2.
std::vector<float> to_half_split(const std::vector<float>& w_t, int64_t columns, int64_t head_dim) {
  std::vector<float> moved(w_t.size());
  const int64_t rows = static_cast<int64_t>(w_t.size()) / columns;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_dim, in_head = row % head_dim;
    const int64_t to = head * head_dim + in_head / 2 + in_head % 2 * (head_dim / 2);
    std::copy_n(w_t.begin() + row * columns, columns, moved.begin() + to * columns);
  }
  return moved;
}

io::ModelConfig config_of(const std::vector<int32_t>& header) {
  io::ModelConfig config;
  config.architecture = io::Architecture::kLlama;
  config.hidden_size = header[0];
  config.intermediate_size = header[1];
  config.num_hidden_layers = header[2];
  config.layers.resize(static_cast<size_t>(config.num_hidden_layers));
  config.num_attention_heads = header[3];
  config.num_key_value_heads = header[4];
  config.head_dim = config.hidden_size / config.num_attention_heads;
  config.vocab_size = header[5];  // a negative size means an untied classifier
  config.max_position_embeddings = header[6];
  config.rms_norm_eps = 1e-5;
  config.ropes[0].theta = 10000.0;
  config.tie_word_embeddings = true;
  config.dtype = DType::kF32;
  return config;
}

}  // namespace

Llama2c read_llama2c(const std::filesystem::path& bin) {
  std::ifstream file(bin, std::ios::binary);
  Llama2c model;
  model.config = config_of(read_values<int32_t>(file, 7));
  const io::ModelConfig& config = model.config;
  NMM_CHECK(config.vocab_size > 0);
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const int64_t kv = config.num_key_value_heads * config.head_dim;

  model.tensors["model.embed_tokens.weight"] = {
      DType::kF32,
      {config.vocab_size, hidden},
      read_values<float>(file, config.vocab_size * hidden)};
  struct Stack {  // one weight of all layers; stacks are in the order of the file
    std::string name;
    Shape shape;
    bool rotated = false;
  };
  const std::array<Stack, 9> stacks = {{{"input_layernorm", {hidden}},
                                        {"self_attn.q_proj", {hidden, hidden}, true},
                                        {"self_attn.k_proj", {kv, hidden}, true},
                                        {"self_attn.v_proj", {kv, hidden}},
                                        {"self_attn.o_proj", {hidden, hidden}},
                                        {"post_attention_layernorm", {hidden}},
                                        {"mlp.gate_proj", {inner, hidden}},
                                        {"mlp.down_proj", {hidden, inner}},
                                        {"mlp.up_proj", {inner, hidden}}}};
  for (const Stack& stack : stacks) {
    const int64_t size = TensorView{DType::kF32, stack.shape, nullptr}.size();
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      std::vector<float> values = read_values<float>(file, size);
      if (stack.rotated) values = to_half_split(values, hidden, config.head_dim);
      model.tensors[fmt::format("model.layers.{}.{}.weight", layer, stack.name)] = {
          DType::kF32, stack.shape, std::move(values)};
    }
  }
  model.tensors["model.norm.weight"] = {DType::kF32, {hidden}, read_values<float>(file, hidden)};
  return model;
}

Llama2cTokenizer::Llama2cTokenizer(const std::filesystem::path& tokenizer_bin, int64_t vocab_size) {
  std::ifstream file(tokenizer_bin, std::ios::binary);
  read_values<int32_t>(file, 1);  // the length of the longest piece
  for (int64_t id = 0; id < vocab_size; ++id) {
    read_values<float>(file, 1);  // the score, which only encoding needs
    const std::vector<char> piece = read_values<char>(file, read_values<int32_t>(file, 1)[0]);
    pieces_.emplace_back(piece.begin(), piece.end());
  }
}

std::string Llama2cTokenizer::decode(const std::vector<TokenId>& tokens) const {
  std::string text;
  for (TokenId token : tokens) {
    const std::string& piece = pieces_.at(static_cast<size_t>(token));
    if (piece.starts_with("<0x") && piece.size() == 6) {
      text += static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16));
    } else {
      text += text.empty() && piece.starts_with(' ') ? piece.substr(1) : piece;
    }
  }
  return text;
}

}  // namespace neuronmm::model
