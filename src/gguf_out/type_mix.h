#pragma once
// Chooses the type of each tensor. The mixes are those of llama-quantize (llama.cpp,
// src/llama-quant.cpp), so that a file has as many bytes as one of the same name from there.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf_out/block_encoder.h"

namespace neuronmm::gguf_out {

// Types by the canonical names of tensors (io/families/family.h).
using BlockTypes = std::map<std::string, BlockType, std::less<>>;

// A value of --type.
struct TypeMix {
  std::string_view name;
  // The value of general.file_type, by which programs call the file.
  int64_t file_type;
  // The type of most matrices.
  BlockType most;
  // Whether a text says which errors matter. llama-quantize with an importance matrix takes other
  // types for some matrices.
  bool calibrated = false;
};

// Returns the mix of this name, or null.
const TypeMix* find_type_mix(std::string_view name);
// Returns the names in the order of the help text.
const std::vector<std::string>& type_mix_names();

// The facts about a model that mixes depend on.
struct MixedModel {
  int64_t layers = 0;
  bool tied = false;
  // The query heads for each key-value head.
  int64_t queries_per_key = 1;
};

// Returns the type that a matrix gets if its rows are whole blocks of it. `tensor` is the
// canonical name of a weight.
BlockType mixed_type(const TypeMix& mix, std::string_view tensor, const MixedModel& model);

// Returns the type, or the one that llama-quantize takes instead for rows of `columns` weights
// that are no whole blocks of it.
BlockType fitting_type(BlockType type, int64_t columns);

}  // namespace neuronmm::gguf_out
