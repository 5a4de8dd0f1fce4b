#pragma once
// Computes how much of SBUF and PSUM the tensors of a trace take at the same time. A tensor lives
// from its first to its last access. simulate() (simulate.h) reports the peaks, and the passes of
// the legacy compiler use them to see whether a kernel fits. Nothing here can fail.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainium/trace/contents.h"

namespace neuronmm::trace {

struct LivePeak {
  int64_t bytes = 0;              // Bytes per partition; in PSUM whole banks count.
  uint32_t at = 0;                // The instruction where the peak is reached.
  std::vector<uint32_t> tensors;  // The instances that are live there.
};

// Returns the bytes per partition that a tensor takes. In PSUM these are whole banks, since two
// results never share one.
int64_t memory_taken(const TensorKind& kind, int64_t psum_bank_bytes);

// Returns the peak of one memory. `header` must be the one that the contents refer to, and
// `psum_bank_bytes` are the bytes of a PSUM bank per partition. Tensors for whose kind `counts` is
// false are left out; if it is null, all count.
LivePeak live_peak(const Header& header, const Contents& contents, tile::Memory memory,
                   int64_t psum_bank_bytes,
                   const std::function<bool(const TensorKind&)>& counts = nullptr);

// Returns how many tensors of a name, in memory on chip, are live at the same time at most.
int64_t most_live(const Header& header, const Contents& contents, const std::string& name);

// Describes the tensors of a peak by name and line, largest first: "x_tile 8 KiB (4 tensors,
// kernel.py:42), ...".
std::string describe(const Header& header, const Contents& contents, const LivePeak& peak,
                     int64_t psum_bank_bytes);

}  // namespace neuronmm::trace
