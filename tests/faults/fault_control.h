#pragma once
// The memory that fault_injector.cc shares with fault_sweep_test.cc. It is a file that the test
// makes and that all processes of the watched command map, so that calls are counted across
// processes and each fault happens once.

#include <atomic>
#include <cstdint>

namespace neuronmm::faults {

// The kind of a system call, which decides how the call can fail.
enum class CallKind : uint8_t {
  kOpen,        // opens a file or folder that exists
  kCreate,      // opens a file that may be new
  kRead,        // reads bytes
  kList,        // reads the names in a folder
  kStatus,      // asks for the status of a file
  kMap,         // maps a file into memory
  kLock,        // locks a file
  kWrite,       // writes bytes, or sets the length of a file
  kSync,        // syncs a file or folder
  kClose,       // closes a file
  kName,        // renames or links a file
  kMakeFolder,  // makes a folder
  kRemove,      // removes a file or folder
  kMode,        // changes the mode of a file
};

// Faults besides the numbers of errors.
inline constexpr int kKill = 0;
inline constexpr int kHalf = -1;  // only half of the bytes are read or written

// The most calls whose kinds are recorded. The largest command makes a few thousand.
inline constexpr long kMaxCalls = 1 << 16;

// The environment variable with the path of the shared file.
inline constexpr const char* kControlVariable = "NEURONMM_FAULT_CONTROL";

struct FaultControl {
  char folder[512];       // calls below this path are counted; it ends in "/"
  long at;                // the number of the call that fails, or 0; the first call has number 1
  int code;               // kKill, kHalf or an errno value
  bool no_unnamed_files;  // whether opening with O_TMPFILE fails, as on some file systems
  std::atomic<bool> asked_for_unnamed_files;  // whether a run has used O_TMPFILE
  std::atomic<long> calls;
  char failed[32];  // the name of the function that failed
  CallKind kinds[kMaxCalls];
};

}  // namespace neuronmm::faults
