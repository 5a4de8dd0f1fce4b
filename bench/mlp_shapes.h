#pragma once
// The MLP sizes of published models (config.json of each), which the benchmark programs time.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace neuronmm::bench {

struct MlpShape {
  int64_t hidden, intermediate;
};

inline const std::map<std::string, MlpShape> kModels = {
    {"smollm2-135m", {576, 1536}},   {"llama-3.2-1b", {2048, 8192}}, {"llama-3.2-3b", {3072, 8192}},
    {"llama-3.1-8b", {4096, 14336}}, {"qwen3-1.7b", {2048, 6144}},   {"qwen3-4b", {2560, 9728}},
    {"qwen3-8b", {4096, 12288}}};

// Returns the names of all models.
inline std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, shape] : kModels) names.push_back(name);
  return names;
}

}  // namespace neuronmm::bench
