#pragma once
// The instructions of a program, prepared once: operands as cells, costs on each engine that may
// run them.

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
  const std::string* target = nullptr;  // the name of the buffer that it writes
  std::vector<Operand> operands;        // dst first
  std::vector<int64_t> element_bytes;   // per operand
  std::vector<bool> in_psum;            // per operand
  std::vector<tile::LoopId> first;      // matmul: overwrites where all are 0
  // DMA: where the on-chip side is, and the HBM side's contiguous elements.
  const tile::Access* on_chip = nullptr;
  const tile::Access* in_hbm = nullptr;
  int64_t hbm_element_bytes = 0;
  bool transposes = false;
};

Prepared prepare(const tile::Program& program, const tile::Instruction& instruction,
                 const std::vector<Grid>& grids, const DeviceSpec& device);

// What a prepared DMA moves at given loop values.
Transfer make_transfer(const tile::Program& program, const Prepared& dma,
                       std::span<const int64_t> loop_values);

}  // namespace neuronmm::simulator
