#pragma once
// Finds the transfers that a kernel could do without, because they bring what it has had on chip
// before. `neuronmm nki` advises on them, and simulates the kernel without them (simulate.h).

#include <cstdint>
#include <vector>

#include "trainium/trace/contents.h"
#include "trainium/trace/file.h"

namespace neuronmm::trace {

// Transfers that a simulation may leave out.
enum class LeftOut : uint8_t {
  kNothing,
  // Loads of bytes that were loaded before. A load repeats another one if it reads the same
  // elements of the same tensor, or if the loads of the tensor would be larger together than the
  // tensor. Loads whose place an index decides do not count.
  kReloads,
  // The transfers of tensors in HBM that the kernel both writes and reads and that are no arguments
  // and no results, and the loads of such results.
  kRoundTrips,
  kTransfers  // All transfers.
};

// The transfers of one kind and tensor that a source line does.
struct RepeatedBytes {
  LeftOut kind = LeftOut::kReloads;  // kReloads or kRoundTrips.
  uint32_t source = 0;               // An index in Header::sources.
  uint32_t tensor = 0;               // An index in Header::tensors.
  int64_t bytes = 0, transfers = 0;
};

// Returns the repeated transfers, by kind and most bytes first.
std::vector<RepeatedBytes> repeated_traffic(const TraceFile& file, const Contents& contents);

// Returns by instruction whether it is left out. Empty for kNothing.
std::vector<bool> left_out(const TraceFile& file, const Contents& contents, LeftOut kind);

}  // namespace neuronmm::trace
