#pragma once
// The parameters of Llama 3.1's RoPE scaling, from what it did to the frequencies.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "io/model_config.h"

namespace neuronmm::gguf {

// `divisors` (rope_freqs.weight, [head_dim / 2]): pair j turns by theta^(-2j / head_dim) /
// divisors[j] per position. nullopt: all are 1. The parameters are those of io/model_config that
// give these divisors; where several do, those of a published model if one does.
// `original_context`: what the file calls the context before scaling. An error if no parameters
// give them; `what` begins it.
Result<std::optional<io::Llama3RopeScaling>> llama3_scaling(std::span<const float> divisors,
                                                            double theta,
                                                            std::optional<int64_t> original_context,
                                                            const std::string& what);

}  // namespace neuronmm::gguf
