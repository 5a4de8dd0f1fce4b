#pragma once
// Makes the config.json of a model in a GGUF file from the keys and tensors that describe its
// architecture. import.cc is the caller.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "gguf/gguf_shards.h"
#include "gguf/vocabulary.h"
#include "io/families/family.h"

namespace neuronmm::gguf {

// An architecture that is known, which io/families describes.
struct GgufArchitecture {
  std::string_view name;  // The value of general.architecture.
  // True if rotary embeddings turn neighbouring elements (0, 1), (2, 3), ... of a head, and false
  // if they turn elements that are half a head apart. The rows of q and k are in this order.
  bool interleaved_rotary;
  const io::Family* family;
  const io::GgufFamily* gguf;
};

// Returns the architecture of the file. Fails if the file names none or an unknown one.
Result<GgufArchitecture> find_architecture(const io::GgufMetadata& metadata);

// Returns the text of config.json for a class of Hugging Face that computes what the file says.
// `tied` says whether the LM head is the embedding table. Fails if keys are missing or have
// impossible values. Features that io/model_config does not know are errors with their names (ALiBi
// positions, parallel residuals, ...). The gains of norms of this config.json have no offset added,
// whatever the file has (WeightSource).
Result<std::string> config_json(const io::GgufShards& model, const GgufArchitecture& architecture,
                                const Vocabulary* vocabulary, DType dtype, bool tied);

}  // namespace neuronmm::gguf
