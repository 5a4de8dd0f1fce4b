#include "paper_models.h"

#include <array>

namespace neuronmm::apps {
namespace {

struct Sizes {
  std::string_view name;
  io::Architecture architecture;
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocab;
};

// All have tied embeddings and bf16 weights.
constexpr std::array<Sizes, 4> kModels = {{
    {"Llama-3.2-1B", io::Architecture::kLlama, 2048, 8192, 16, 32, 8, 64, 128256},
    {"Llama-3.2-3B", io::Architecture::kLlama, 3072, 8192, 28, 24, 8, 128, 128256},
    {"Qwen3-1.7B", io::Architecture::kQwen3, 2048, 6144, 28, 16, 8, 128, 151936},
    {"Qwen3-4B", io::Architecture::kQwen3, 2560, 9728, 36, 32, 8, 128, 151936},
}};

}  // namespace

Result<io::ModelConfig> paper_model(std::string_view name) {
  for (const Sizes& sizes : kModels) {
    if (sizes.name != name) continue;
    io::ModelConfig config;
    config.architecture = sizes.architecture;
    config.hidden_size = sizes.hidden;
    config.intermediate_size = sizes.intermediate;
    config.num_hidden_layers = sizes.layers;
    config.num_attention_heads = sizes.heads;
    config.num_key_value_heads = sizes.kv_heads;
    config.head_dim = sizes.head_dim;
    config.vocab_size = sizes.vocab;
    config.max_position_embeddings = 40960;  // the least of the four; requests are far shorter
    config.tie_word_embeddings = true;
    config.qk_norm = sizes.architecture == io::Architecture::kQwen3;
    return config;
  }
  return fail("unknown model {}: expected one of the paper's", name);
}

}  // namespace neuronmm::apps
