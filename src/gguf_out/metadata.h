#pragma once
// The key-value pairs of a file that describe the model: sizes, switches, RoPE, names and licence.
// The keys are those of llama.cpp (docs/gguf.md of ggml-org/ggml, src/llama-arch.cpp).

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gguf_out/architecture.h"
#include "gguf_out/container_writer.h"
#include "gguf_out/source_model.h"
#include "gguf_out/type_mix.h"

namespace neuronmm::gguf_out {

// A tensor that is metadata: RoPE factors.
struct NumbersOut {
  std::string name;
  std::vector<float> values;
};

// Adds the pairs that say what the model computes, and returns the tensors that belong to them.
std::vector<NumbersOut> add_architecture(const SourceModel& source,
                                         const ArchitectureOut& architecture, Pairs& pairs);

// Adds the names, the licence and what neuronmm records about the model. `folder` is that of the
// model, and `producer` the program with its version.
void add_names(const SourceModel& source, const std::filesystem::path& folder, const TypeMix& mix,
               const std::string& producer, Pairs& pairs);

// Adds the defaults for drawing tokens from generation_config.json, if it recommends any.
Status add_sampling(const std::filesystem::path& folder, Pairs& pairs);

}  // namespace neuronmm::gguf_out
