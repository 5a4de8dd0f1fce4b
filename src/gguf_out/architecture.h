#pragma once
// Chooses the architecture of llama.cpp that computes a model, and the sizes that the MLPs get.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf_out/source_model.h"
#include "gguf_out/type_mix.h"
#include "io/families/family.h"

namespace neuronmm::gguf_out {

struct ArchitectureOut {
  // What the family says about the architecture. The names of tensors are in it.
  const io::GgufFamily* gguf = nullptr;
  // The neurons of each layer in the file. Layers may get neurons of zeros.
  std::vector<int64_t> neurons = {};
  // What a person should know: neurons of zeros, factors that were multiplied out, windows.
  std::vector<std::string> notes = {};

  // Returns whether the file's layers have different sizes.
  bool has_unequal_sizes() const;
};

// Chooses the architecture for a file of this mix. Fails if llama.cpp has none that computes the
// model; the message names the reason and begins with `name`.
Result<ArchitectureOut> choose_architecture(const SourceModel& source, const TypeMix& mix,
                                            const std::string& name);

}  // namespace neuronmm::gguf_out
