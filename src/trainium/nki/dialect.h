#pragma once
// This file names the two languages called NKI. The emitter writes a kernel in the one that the
// device's Neuron SDK supports. The release notes of SDK 2.29 leave trn1 to the legacy dialect, and
// from SDK 2.30 on that dialect is a compile error.
//
// * nki: `import nki`, SDK 2.29 to 2.32 (NKI 0.3 to 0.6). Every instruction names the destination
//   of its result. Loops are Python loops and are unrolled.
// * neuronxcc: `import neuronxcc.nki`, SDK up to 2.28, the legacy dialect. Instructions return
//   their results. Loops are traced once, so only positions in them may depend on the iteration.

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::nki {

enum class Dialect { kNki, kNeuronxcc };

std::string_view dialect_name(Dialect dialect);  // Returns "nki" or "neuronxcc".
std::optional<Dialect> find_dialect(std::string_view name);

// Returns the dialect for a device such as "trn1".
Dialect dialect_for(std::string_view device);
// Returns why a dialect does not fit a device, or an empty text if it does.
std::string why_unsuited(Dialect dialect, std::string_view device);

}  // namespace neuronmm::nki
