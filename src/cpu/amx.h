#pragma once
// Intel AMX, matrix products in tile registers: what LDTILECFG reads, and whether this process may
// use it. Nobody here has a CPU with AMX. The kernel is tested with emulated instructions
// (tests/cpu/emulated_tiles.h); the instructions themselves were never run, which is why
// best_kernels() compares a small product before it uses them.

#include <cstdint>

namespace neuronmm::cpu {

struct Kernels;

// The 64 bytes of LDTILECFG, and the limits of palette 1 (Intel Software Developer's Manual, volume
// 2A, LDTILECFG). A tile is `rows` rows of `row_bytes` bytes.
struct TileConfig {
  static constexpr int kTiles = 8;
  static constexpr int kMaxRows = 16;
  static constexpr int kMaxRowBytes = 64;

  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[2 * kTiles] = {};  // the second half is reserved, here and below
  uint8_t rows[2 * kTiles] = {};
};
static_assert(sizeof(TileConfig) == 64);

// The CPU multiplies tiles of bytes, and Linux lets this process: it asks, once and for all
// threads. Only on CPUs with AVX.
bool amx_granted();

// Whether both make the same bits of int8 products with every height of a tile of rows.
bool multiply_alike(const Kernels& one, const Kernels& other);

}  // namespace neuronmm::cpu
