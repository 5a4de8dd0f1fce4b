#pragma once
// Counts the bytes of SBUF and PSUM that the tensors of a trace take over simulated time, for a
// timeline (simulator/timeline.h). TraceSource (source.h) tells it every access. Nothing here can
// fail.
//
// A tensor counts from the begin of its first access to the end of its last one. The end of a write
// is when its result is visible. In PSUM whole banks count. Tensors that only instructions without
// a time touch do not count.
//
// The maximum is normally that of "most memory at a time" in a report (MemoryPeak, simulate.h). The
// two differ by definition in four cases:
//   * The report counts in program order. In time, a load may begin while tensors of earlier
//     instructions are still in use, and a tensor may be finished earlier than in program order.
//   * What replaces the whole content of a tensor may get a place of its own
//     (TensorMemory::begin_anew). It then counts as another tensor.
//   * A tensor may take the place of a part of another one that is no longer needed, while the rest
//     of that one is. Both count as a whole, so that the sum may exceed the capacity.
//   * A tensor of a kernel that spills counts while it is spilled, as it does in the report.

#include <cstdint>
#include <unordered_map>

#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/timeline.h"
#include "trainium/trace/contents.h"
#include "trainium/trace/header.h"
#include "trainium/trace/tensor_memory.h"

namespace neuronmm::trace {

class MemoryCounters {
 public:
  // Adds the counters to the timeline. What the references refer to must outlive the object.
  MemoryCounters(const Header& header, const Contents& contents,
                 const simulator::DeviceSpec& device, simulator::Timeline& timeline);

  // Notes an access from `begin` to `end`, in ns. `root` is an index in Contents::instances, and
  // `content` what TensorMemory::begin_access returned, which is another state for a content with
  // a place of its own.
  void access(uint32_t root, const TensorState* content, double begin, double end);
  // Notes that the tensor is not accessed again.
  void finish(uint32_t root);

 private:
  struct Life {
    const TensorState* content = nullptr;
    double begin = 0, end = 0;
  };
  const Header& header_;
  const Contents& contents_;
  int64_t psum_bank_bytes_;
  simulator::Timeline& timeline_;
  int sbuf_ = 0, psum_ = 0;                   // The numbers of the counters.
  std::unordered_map<uint32_t, Life> lives_;  // By root: the tensors in use.
};

}  // namespace neuronmm::trace
