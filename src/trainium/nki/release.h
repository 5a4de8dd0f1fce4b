#pragma once
// This file lists the releases of the Neuron SDK that a kernel may be for, and says which of the
// two languages called NKI each of them compiles. `neuronmm emit` writes a kernel for one, and
// `neuronmm nki` runs a kernel by the rules of one (python/nki/tracer/releases.py).
//
// * nki: `import nki`, SDK 2.29 on (NKI 0.3 to 0.7). Every instruction names the destination of its
//   result. Loops are Python loops and are unrolled.
// * neuronxcc: `import neuronxcc.nki`, SDK up to 2.28, the legacy dialect. Instructions return
//   their results. Loops are traced once, so only positions in them may depend on the iteration.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::nki {

enum class Dialect { kNki, kNeuronxcc };
std::string_view dialect_name(Dialect dialect);  // Returns "nki" or "neuronxcc".

struct Release {
  std::string_view sdk;  // "2.33"
  std::string_view nki;  // The version of the language: "0.7".
  Dialect dialect = Dialect::kNki;
};

// The newest release. Documented: the release notes of 2.33.0 (2026-10-19).
inline constexpr Release kNewestRelease = {"2.33", "0.7", Dialect::kNki};

// Returns the names of all releases, the oldest first: "2.27", ...
const std::vector<std::string>& release_names();
std::optional<Release> find_release(std::string_view sdk);

// Returns the newest release for a device such as "trn1". The release notes of SDK 2.29 leave trn1
// to SDK 2.28.
Release newest_release(std::string_view device);
// Returns why a release does not fit a device, or an empty text if it does.
std::string why_unsuited(const Release& release, std::string_view device);

}  // namespace neuronmm::nki
