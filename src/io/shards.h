#pragma once
// Splits a model's tensors into files as Hugging Face does: model.safetensors, or
// model-00001-of-0000N.safetensors and an index.

#include <string>
#include <vector>

#include "io/safetensors_writer.h"

namespace neuronmm::io {

// "5GB", the default of transformers.
inline constexpr int64_t kMaxShardBytes = 5'000'000'000;
inline constexpr const char* kSingleFileName = "model.safetensors";
inline constexpr const char* kIndexFileName = "model.safetensors.index.json";

// A file and its tensors.
struct Shard {
  std::string file_name;
  std::vector<TensorSpec> specs;
};

// Returns the bytes of a tensor.
int64_t size_bytes(const TensorSpec& spec);

// Distributes the tensors in the order of `specs`. A shard ends before the tensor that would exceed
// the limit. A tensor that is larger than the limit has its own shard.
std::vector<Shard> plan_shards(const std::vector<TensorSpec>& specs,
                               int64_t max_bytes = kMaxShardBytes);

// Returns the text of model.safetensors.index.json.
std::string index_json(const std::vector<Shard>& shards);

}  // namespace neuronmm::io
