#pragma once
// How much of SBUF and PSUM the tensors of a trace take at a time. A tensor lives from its first to
// its last access.

#include <cstdint>
#include <string>
#include <vector>

#include "trainium/trace/contents.h"

namespace neuronmm::trace {

struct LivePeak {
  int64_t bytes = 0;              // per partition; PSUM: of whole banks
  uint32_t at = 0;                // the instruction at which it is reached
  std::vector<uint32_t> tensors;  // instances that live there
};

// Bytes per partition that a tensor takes: in PSUM whole banks, as two results never share one.
int64_t memory_taken(const TensorKind& kind, int64_t psum_bank_bytes);

LivePeak live_peak(const Header& header, const Contents& contents, tile::Memory memory,
                   int64_t psum_bank_bytes);

// "x_tile 4 x 2.0 KiB (kernel.py:42), ...": the tensors of a peak by name and line, largest first.
std::string describe(const Header& header, const Contents& contents, const LivePeak& peak,
                     int64_t psum_bank_bytes);

}  // namespace neuronmm::trace
