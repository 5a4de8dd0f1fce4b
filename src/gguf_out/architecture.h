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
  // The family's description of the architecture. The names of tensors are in it.
  const io::GgufFamily* gguf = nullptr;
  // The neurons of each layer in the file. Layers may get neurons of zeros.
  std::vector<int64_t> neurons = {};
  // The neurons of every expert in the file, or 0 without experts. Experts may get neurons of
  // zeros.
  int64_t expert_neurons = 0;
  // Remarks for the user: neurons of zeros, factors that were multiplied out, windows.
  std::vector<std::string> notes = {};

  // Returns whether the file's layers have different sizes.
  bool has_unequal_sizes() const;
  // Returns whether files of the architecture have a key for the neurons of an expert. In others it
  // is that of the MLP.
  bool has_expert_key() const;
};

// Chooses the architecture for a file of this mix. Fails if llama.cpp has none that computes the
// model; the message names the reason and begins with `name`.
Result<ArchitectureOut> choose_architecture(const SourceModel& source, const TypeMix& mix,
                                            const std::string& name);

}  // namespace neuronmm::gguf_out
