#pragma once
// How Hugging Face splits a model's tensors into files: model.safetensors, or
// model-00001-of-0000N.safetensors and an index.

#include <string>
#include <vector>

#include "io/safetensors_writer.h"

namespace neuronmm::io {

inline constexpr int64_t kMaxShardBytes = 5'000'000'000;  // "5GB", transformers' default
inline constexpr const char* kSingleFileName = "model.safetensors";
inline constexpr const char* kIndexFileName = "model.safetensors.index.json";

struct Shard {
  std::string file_name;
  std::vector<TensorSpec> specs;
};

int64_t size_bytes(const TensorSpec& spec);

// In the order of `specs`; a shard ends before the tensor that would exceed the limit. A tensor
// larger than the limit has a shard of its own.
std::vector<Shard> plan_shards(const std::vector<TensorSpec>& specs,
                               int64_t max_bytes = kMaxShardBytes);

// The text of model.safetensors.index.json.
std::string index_json(const std::vector<Shard>& shards);

}  // namespace neuronmm::io
