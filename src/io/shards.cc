#include "io/shards.h"

#include <nlohmann/json.hpp>

#include "io/safetensors_writer.h"

namespace neuronmm::io {

int64_t size_bytes(const TensorSpec& spec) {
  return TensorView{spec.dtype, spec.shape, nullptr}.size_bytes();
}

std::vector<Shard> plan_shards(const std::vector<TensorSpec>& specs, int64_t max_bytes) {
  std::vector<Shard> shards(1);
  int64_t filled = 0;
  for (const TensorSpec& spec : specs) {
    const int64_t bytes = size_bytes(spec);
    if (filled > 0 && filled + bytes > max_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().specs.push_back(spec);
    filled += bytes;
  }
  // Hugging Face's libraries look for these names, whose numbers begin at 1.
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file_name =
        shards.size() == 1 ? kSingleFileName
                           : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

// Other programs read this index, so it has Hugging Face's format.
std::string index_json(const std::vector<Shard>& shards) {
  int64_t total = 0;
  nlohmann::json weight_map = nlohmann::json::object();
  for (const Shard& shard : shards) {
    for (const TensorSpec& spec : shard.specs) {
      total += size_bytes(spec);
      weight_map[spec.name] = shard.file_name;
    }
  }
  const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  return index.dump(2) + "\n";
}

}  // namespace neuronmm::io
