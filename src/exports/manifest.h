#pragma once
// What an export says of itself: export.json and kernels/kernels.json, which its scripts read.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "exports/check_exportable.h"
#include "exports/target.h"
#include "io/model_config.h"

namespace neuronmm::exports {

// A kernel "mlp" as NKI source: M tokens, K hidden_size, r rank, N intermediate_size.
struct ExportedKernel {
  std::string file;           // in kernels/
  std::string function = {};  // its name there
  std::string use;            // "prefill": of so many tokens; "simulate": small, for nki.simulate
  int64_t M = 0, K = 0, r = 0, N = 0;
  double tolerance = 0;  // relative, of the whole result in the Frobenius norm
  std::string source = {};
};

// Of one request on one simulated NeuronCore, in milliseconds.
struct Prediction {
  double prefill_ms = 0, decode_ms = 0, request_ms = 0;  // decode: a token
};

struct Manifest {
  Target target = Target::kVllmNeuron;
  Choice choice = {};   // device and release
  std::string version;  // of this program
  std::string source;   // the model's folder, by its last name
  io::ModelConfig config = {};
  int64_t prompt_tokens = 0, new_tokens = 0;  // of the times, and the prefill's bucket
  KernelUse use = {};
  std::vector<ExportedKernel> kernels = {};
  Prediction dense = {}, factored = {};
};

// Positions that the target is started for: prompt and new tokens, in vLLM as the next multiple of
// 256. The plugin's decoding attends to whole tiles of 128 positions (attention_decode_mask.py), on
// each core of a pair.
int64_t sequence_length(const Manifest& manifest);

// `files`: of written_files(); without, what is said of an export without naming its files.
std::string export_json(const Manifest& manifest, const nlohmann::ordered_json& files = nullptr);
std::string kernels_json(const std::vector<ExportedKernel>& kernels);
std::string model_type(const io::ModelConfig& config);    // "neuronmm_llama"
std::string architecture(const io::ModelConfig& config);  // "NeuronmmLlamaForCausalLM"

}  // namespace neuronmm::exports
