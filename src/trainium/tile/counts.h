#pragma once
// What a program does, counted by walking it, without computing a value: the bytes that its DMAs
// move, its matmuls and their FLOPs. The traffic is that of the program as written; what a compiler
// adds when SBUF is oversubscribed (spills) is the timing model's business.

#include <cstdint>

#include "trainium/tile/program.h"
#include "trainium/tile/walk.h"

namespace neuronmm::tile {

struct Counts {
  int64_t hbm_read_bytes = 0, hbm_write_bytes = 0;
  int64_t dma_copies = 0;
  int64_t nc_matmuls = 0, nc_transposes = 0;
  int64_t matmul_flops = 0;  // 2 · M · N · K of every nc_matmul
  int64_t instructions = 0;

  // Adds one instruction at given loop values.
  void add(const Program& program, const Instruction& instruction,
           std::span<const int64_t> loop_values);
  bool operator==(const Counts&) const = default;
};

Counts count(const Program& program);

}  // namespace neuronmm::tile
