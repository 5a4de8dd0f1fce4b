#pragma once
// Writes small LoRA adapters as PEFT does, for tests of commands.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace neuronmm::io {

// Writes an adapter of rank 1 with scale 1 for the query projection of layer 0, [hidden, hidden].
// All elements of its two matrices are `value`.
inline void write_small_adapter(const std::filesystem::path& folder, int64_t hidden, float value) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "adapter_config.json")
      << R"({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]})";
  const std::string module = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  const int64_t bytes = hidden * static_cast<int64_t>(sizeof(float));
  const nlohmann::json header = {
      {module + "A.weight",
       {{"dtype", "F32"}, {"shape", {1, hidden}}, {"data_offsets", {0, bytes}}}},
      {module + "B.weight",
       {{"dtype", "F32"}, {"shape", {hidden, 1}}, {"data_offsets", {bytes, 2 * bytes}}}}};
  const std::string text = header.dump();
  const auto length = static_cast<uint64_t>(text.size());
  const std::vector<float> values(static_cast<size_t>(2 * hidden), value);
  std::ofstream file(folder / "adapter_model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << text;
  file.write(reinterpret_cast<const char*>(values.data()), 2 * bytes);
}

}  // namespace neuronmm::io
