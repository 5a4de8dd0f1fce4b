#pragma once
// Finds the parameters of Llama 3.1's RoPE scaling from the divisors of the frequencies, because a
// GGUF file holds only the divisors. hyperparameters.cc is the caller.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "io/model_config.h"

namespace neuronmm::gguf {

// Returns the divisor of pair `j` of `pairs`, which the exporter (src/gguf_out) writes.
double llama3_divisor(size_t j, size_t pairs, double theta, const io::Llama3RopeScaling& scaling);

// `divisors` (rope_freqs.weight) has the shape [head_dim / 2]. Pair j turns by theta^(-2j /
// head_dim) / divisors[j] per position. Returns the parameters of io/model_config that give these
// divisors, and nullopt if all divisors are 1. If several parameters do, those of a published model
// are preferred. `original_context` is the context before scaling, if the file has it. Fails with a
// message that begins with `what` if no parameters give the divisors.
Result<std::optional<io::Llama3RopeScaling>> llama3_scaling(std::span<const float> divisors,
                                                            double theta,
                                                            std::optional<int64_t> original_context,
                                                            const std::string& what);

}  // namespace neuronmm::gguf
