#pragma once
// The CPU backend: it runs the SIMD kernels (Highway, which dispatches at run time to an
// instruction set that the CPU has) on the thread team.
//
// BF16 weights are packed as bf16, quantized ones keep their bits, and all others become fp32.
// Activations and sums are fp32, with two exceptions. Activations that meet quantized weights are
// rounded to int8. Activations that meet bf16 weights are rounded to bf16 if the kernels were
// chosen so (kernels.h). Results do not depend on the number of threads.
//
// A backend and everything it made share scratch memory, so they serve one forward pass at a time.
// Concurrent forward passes need a backend each.

#include <limits>
#include <memory>
#include <string>

#include "ops/backend.h"

namespace neuronmm::cpu {

struct Kernels;

// How keys and values are kept: as bf16, or fp32 for fp32 models, or as bytes.
enum class KeysAndValues { kAuto, kInt8 };
// How weights in foreign formats, such as the blocks of a GGUF file, are packed: in the nearest
// format of ours (ForeignFormat::packed_format), or with exactly their values: as codes
// (base/coded_values.h) if they have such, and as fp32 otherwise.
enum class ForeignWeights { kNearest, kExact };

// The memory that the weights of a model may take. If all experts of a mixture need more, some of
// them are read from the checkpoint when a token chooses them (ops/limited_experts.h).
struct WeightMemory {
  int64_t bytes = std::numeric_limits<int64_t>::max();
  std::string origin = {};  // what sets the limit, for the notice
};

std::unique_ptr<ops::Backend> make_backend();  // with best_kernels()
std::unique_ptr<ops::Backend> make_backend(const Kernels& kernels,
                                           KeysAndValues kv = KeysAndValues::kAuto,
                                           ForeignWeights foreign = ForeignWeights::kNearest,
                                           WeightMemory memory = {});

}  // namespace neuronmm::cpu
