#pragma once
// This file counts what a program does by walking it, without computing a value: the bytes that its
// DMAs move, its matmuls and their FLOPs. Commands print the counts, and tests compare them with
// the closed formulas of the kernels. The traffic is that of the program as written. The timing
// model adds what a compiler adds when SBUF is oversubscribed (spills).

#include <cstdint>

#include "trainium/tile/program.h"
#include "trainium/tile/walk.h"

namespace neuronmm::tile {

// Totals over all instructions that a program executes.
struct Counts {
  int64_t hbm_read_bytes = 0, hbm_write_bytes = 0;
  int64_t dma_copies = 0;
  int64_t nc_matmuls = 0, nc_transposes = 0;
  int64_t matmul_flops = 0;  // The sum of 2 · M · N · K over all nc_matmuls.
  int64_t instructions = 0;

  // Adds one instruction at the given loop values.
  void add(const Program& program, const Instruction& instruction,
           std::span<const int64_t> loop_values);
  bool operator==(const Counts&) const = default;
};

Counts count(const Program& program);

}  // namespace neuronmm::tile
