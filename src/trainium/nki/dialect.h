#pragma once
// The two languages called NKI. A kernel is written in one of them, by what its device's Neuron SDK
// takes: SDK 2.29's release notes leave trn1 to the legacy dialect, and from 2.30 on that one is a
// compile error.
//
//   nki         `import nki`, SDK 2.29 to 2.32 (NKI 0.3 to 0.6): every instruction is told where
//               its result goes, loops are Python's and are unrolled
//   neuronxcc   `import neuronxcc.nki`, SDK up to 2.28: instructions return their results, loops
//               are traced once, so that nothing in them may depend on the iteration but positions

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::nki {

enum class Dialect { kNki, kNeuronxcc };

std::string_view dialect_name(Dialect dialect);  // "nki", "neuronxcc"
std::optional<Dialect> find_dialect(std::string_view name);

// What a device ("trn1") is programmed in.
Dialect dialect_for(std::string_view device);
// Why a dialect does not fit a device; empty: it does.
std::string misfit(Dialect dialect, std::string_view device);

}  // namespace neuronmm::nki
