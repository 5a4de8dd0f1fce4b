#pragma once
// The facts about an export, and the two JSON files that hold them: export.json and
// kernels/kernels.json. The Python scripts of the export read these files. The `export` command
// fills a Manifest.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "exports/check_exportable.h"
#include "exports/target.h"
#include "io/model_config.h"

namespace neuronmm::exports {

// The kernel "mlp" as NKI source. The letters of its shape: M tokens, K hidden_size, r rank, N
// intermediate_size.
struct ExportedKernel {
  std::string file;           // its name in kernels/
  std::string function = {};  // the name of the function in that file
  // "prefill": used for prompts of exactly M tokens. "simulate": small, for nki.simulate.
  std::string use;
  int64_t M = 0, K = 0, r = 0, N = 0;
  int64_t cores = 1;  // the cores of a launch, which split the rows
  // The allowed relative error of the whole result in the Frobenius norm.
  double tolerance = 0;
  std::string source = {};
};

// The predicted times of one request on one simulated NeuronCore, in milliseconds.
struct Prediction {
  double prefill_ms = 0, decode_ms = 0, request_ms = 0;  // decode: per token
};

// Everything that the files of an export say about it.
struct Manifest {
  Target target = Target::kVllmNeuron;
  Choice choice = {};   // the device and the release
  std::string version;  // the version of this program
  std::string source;   // the last part of the path of the model's folder
  io::ModelConfig config = {};
  // The lengths that times are predicted for. prompt_tokens is the prefill's bucket, too.
  int64_t prompt_tokens = 0, new_tokens = 0;
  KernelUse use = {};
  std::vector<ExportedKernel> kernels = {};
  Prediction dense = {}, factored = {};
};

// Returns how many positions the target is started for: prompt and new tokens. For vLLM the sum is
// rounded up to a multiple of 256, because each of the two cores of a pair attends to whole tiles
// of 128 positions when decoding (the plugin's attention_decode_mask.py).
int64_t sequence_length(const Manifest& manifest);

// Returns the text of export.json. `files` comes from written_files(). Without it the file list is
// left out.
std::string export_json(const Manifest& manifest, const nlohmann::ordered_json& files = nullptr);
// Returns the text of kernels/kernels.json.
std::string kernels_json(const std::vector<ExportedKernel>& kernels);
std::string model_type(const io::ModelConfig& config);    // "neuronmm_llama"
std::string architecture(const io::ModelConfig& config);  // "NeuronmmLlamaForCausalLM"

}  // namespace neuronmm::exports
