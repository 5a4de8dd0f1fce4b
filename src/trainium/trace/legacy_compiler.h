#pragma once
// Models what the compiler of the legacy dialect makes of a kernel, as far as it is known. A trace
// has the program's instructions in the program's order. The compiled trace has those that the
// compiler might issue. docs/reference/nki_legacy.md says what is documented and what is assumed.
// simulate() (simulate.h) uses it.

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/contents.h"
#include "trainium/trace/file.h"

namespace neuronmm::trace {

// Longer traces stay as they are, because a schedule keeps a few hundred bytes per instruction.
inline constexpr int64_t kMostCompiledInstructions = 8'000'000;

struct Compiled {
  TraceFile file;
  Contents contents;
  std::shared_ptr<const Header> accessed;  // The header that the contents' accesses refer to.
  std::string note;                        // The changes, for the reader of a report.
};

// Compiles a trace. `contents` are those of the file. Fails if an instruction has no price.
Result<Compiled> compile_legacy(const TraceFile& file, Contents contents,
                                const simulator::DeviceSpec& device);

}  // namespace neuronmm::trace
