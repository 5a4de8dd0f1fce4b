#include "paper/paper_models.h"

#include <array>

namespace neuronmm::apps {
namespace {

// The published sizes of a model. Nothing is downloaded, because times do not depend on the values
// of weights.
struct Sizes {
  std::string_view name;
  io::Architecture architecture;
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocab;
  bool tied_embeddings;
};

// The values are those of each model's config.json.
constexpr std::array<Sizes, 6> kModels = {{
    {"Llama-3.2-1B", io::Architecture::kLlama, 2048, 8192, 16, 32, 8, 64, 128256, true},
    {"Llama-3.2-3B", io::Architecture::kLlama, 3072, 8192, 28, 24, 8, 128, 128256, true},
    {"Qwen3-1.7B", io::Architecture::kQwen3, 2048, 6144, 28, 16, 8, 128, 151936, true},
    {"Qwen3-4B", io::Architecture::kQwen3, 2560, 9728, 36, 32, 8, 128, 151936, true},
    {"Llama-3.1-8B", io::Architecture::kLlama, 4096, 14336, 32, 32, 8, 128, 128256, false},
    {"Qwen3-8B", io::Architecture::kQwen3, 4096, 12288, 36, 32, 8, 128, 151936, false},
}};

}  // namespace

std::vector<std::string> paper_model_names() {
  std::vector<std::string> names;
  for (const Sizes& sizes : kModels) names.emplace_back(sizes.name);
  return names;
}

std::vector<std::string> models_or_all(const std::vector<std::string>& wanted) {
  return wanted.empty() ? paper_model_names() : wanted;
}

// Sets only the fields that a forward pass reads. The others keep their defaults.
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
    // The smallest value of the six models; requests are far shorter.
    config.max_position_embeddings = 40960;
    config.tie_word_embeddings = sizes.tied_embeddings;
    if (sizes.architecture == io::Architecture::kQwen3) config.qk_norm = io::QkNorm::kPerHead;
    return config;
  }
  return fail("unknown model {}: expected one of the paper's", name);
}

}  // namespace neuronmm::apps
