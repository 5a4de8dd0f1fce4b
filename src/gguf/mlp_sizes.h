#pragma once
// Reads the sizes of a model's MLPs, which two architectures of llama.cpp have for each layer.
// hyperparameters.cc is the caller.

#include <cstdint>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "gguf/gguf_metadata.h"
#include "io/families/family.h"

namespace neuronmm::gguf {

struct MlpSizes {
  int64_t largest = 0;
  // The neurons of each layer, or nothing if all layers have the same number.
  std::vector<int64_t> layers = {};
};

// Returns whether layers of the architecture may have different sizes.
bool has_mlp_sizes(std::string_view architecture);

// Reads "feed_forward_length" of a model with `layers` layers, which has at least one neuron each.
Result<MlpSizes> read_mlp_sizes(const io::GgufFacts& facts, int64_t layers);

// Returns the entry "neuronmm_compression" of config.json for unequal sizes. Files of `neuronmm
// export` say how they were compressed; of others only the sizes are known.
Result<nlohmann::ordered_json> compression_record(const io::GgufMetadata& metadata,
                                                  const MlpSizes& sizes);

}  // namespace neuronmm::gguf
