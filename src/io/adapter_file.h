#pragma once
// Reads the adapter_model.safetensors of a LoRA adapter: which tensors belong to which module of
// the model. The names are PEFT's, and the modules have the names of the model that was trained:
//
//   base_model.model.M.lora_A.weight [rank, inputs]       M.weight + scale · lora_B · lora_A
//   base_model.model.M.lora_B.weight [outputs, rank]
//   base_model.model.M.lora_B.bias [outputs]              M.bias + scale · this (lora_bias)
//   base_model.model.M.lora_magnitude_vector [outputs]    DoRA
//   base_model.model.M.lora_embedding_A [rank, rows]      the table M.weight + scale · (B · A)^T
//   base_model.model.M.lora_embedding_B [columns, rank]
//   base_model.model.M.weight, .bias                      in place of the model's own tensor
//
// A name may have ".default" before its ending, and M may end in ".base_layer" or
// ".modules_to_save".

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "io/safetensors.h"

namespace neuronmm::io {

inline constexpr const char* kAdapterFileName = "adapter_model.safetensors";

// The matrices of one module. Both a and b have the stated shapes, and the same rank.
struct AdapterModule {
  TensorView a, b;
  TensorView magnitudes;  // empty without DoRA
  TensorView bias;        // of lora_B; empty without one
  bool of_table = false;  // a and b are lora_embedding_A and _B

  int64_t rank() const { return a.rows(); }
};

// All tensors of an adapter. They are views of the mapped file.
struct AdapterFile {
  SafetensorsFile file;
  std::map<std::string, AdapterModule> modules;    // by M
  std::map<std::string, TensorView> replacements;  // by the name of the tensor: "lm_head.weight"

  // Opens the file of a folder, and checks that no matrix is without its other half, that shapes
  // agree and that each tensor has a name of the list above.
  static Result<AdapterFile> open(const std::filesystem::path& folder);
};

}  // namespace neuronmm::io
