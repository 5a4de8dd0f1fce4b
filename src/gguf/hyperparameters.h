#pragma once
// config.json for the model of a GGUF file: what its keys and tensors say about the architecture.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "gguf/vocabulary.h"
#include "io/gguf_shards.h"

namespace neuronmm::gguf {

struct GgufArchitecture {
  std::string_view name;  // general.architecture
  // Rotary embeddings turn neighbours (0, 1), (2, 3), ... of a head and not those half a head
  // apart: the rows of q and k are in that order.
  bool interleaved_rotary;
};

// Errors: no architecture in the file, or one that is not known here.
Result<GgufArchitecture> find_architecture(const io::GgufMetadata& metadata);

// The text of config.json, of a class of Hugging Face's that computes what the file says. Errors:
// keys that are missing or of impossible values, and everything by name that changes the
// computation in a way that io/model_config does not know (experts, YaRN, part-rotary heads, ...).
Result<std::string> config_json(const io::GgufShards& model, const GgufArchitecture& architecture,
                                const Vocabulary* vocabulary, DType dtype);

}  // namespace neuronmm::gguf
