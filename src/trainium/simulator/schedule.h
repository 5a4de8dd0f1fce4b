#pragma once
// Prepares the instructions of a tile program once for the timing model (timing.cc) and the bound
// (bound.cc): their operands as cells, and their costs on each engine that may run them.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/dma.h"
#include "trainium/simulator/job.h"
#include "trainium/simulator/regions.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

struct Prepared : Job {
  const tile::Instruction* instruction = nullptr;
  const std::string* target = nullptr;  // The name of the buffer that it writes.
  std::vector<Operand> operands;        // The destination comes first.
  std::vector<int64_t> element_bytes;   // The size of an element of each operand.
  std::vector<bool> in_psum;            // Whether each operand is in PSUM.
  // DMA: the on-chip side, the HBM side, and the size of an element in HBM. For a copy inside HBM,
  // `on_chip` is the source.
  const tile::Access* on_chip = nullptr;
  const tile::Access* in_hbm = nullptr;
  int64_t hbm_element_bytes = 0;
  bool transposes = false;
  // The index of a load whose place the data tells, as one element; empty for every other one.
  std::vector<Operand> index;
};

Prepared prepare(const tile::Program& program, const tile::Instruction& instruction,
                 const std::vector<BufferGrid>& grids, const DeviceSpec& device);

// Returns what a prepared DMA moves at the given loop values.
Transfer make_transfer(const tile::Program& program, const Prepared& dma,
                       std::span<const int64_t> loop_values);

}  // namespace neuronmm::simulator
