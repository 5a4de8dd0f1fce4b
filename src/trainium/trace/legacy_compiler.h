#pragma once
// What the compiler of the legacy dialect makes of a kernel, as far as it is known: a trace has the
// program's instructions in the program's order; this is the trace of what might be issued.
// docs/nki_legacy.md says what is documented of it, and what is assumed.

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/contents.h"
#include "trainium/trace/file.h"

namespace neuronmm::trace {

// Longer traces stay as they are: a schedule keeps a few hundred bytes per instruction.
inline constexpr int64_t kMostCompiledInstructions = 8'000'000;

struct Compiled {
  TraceFile file;
  Contents contents;
  std::shared_ptr<const Header> accessed;  // the header that the contents' accesses refer to
  std::string note;                        // what was done, for the reader of a report
};

// `contents`: of the file. Fails where an instruction has no price.
Result<Compiled> compile_legacy(const TraceFile& file, Contents contents,
                                const simulator::DeviceSpec& device);

}  // namespace neuronmm::trace
