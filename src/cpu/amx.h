#pragma once
// Intel AMX, matrix products in tile registers: what LDTILECFG reads, and whether this process may
// use it. The kernels are tested on the CPU, where it has AMX, and everywhere with emulated
// instructions (tests/cpu/emulated_tiles.h). Hypervisors and emulators may have it halfway, so that
// best_kernels() compares a small product with the one of the ordinary instructions before it uses
// the tiles.

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

// Whether this process may use AMX: the CPU has the instructions for tiles of bytes and of bf16, as
// every CPU with AMX so far, and the operating system has granted the process their registers. The
// first call asks Linux for them, for all threads of the process. To be called on CPUs with AVX
// only: others do not have the instruction that tells what the system has enabled.
bool amx_granted();

// Whether both tables give the same bits for int8 products, whatever the number of rows.
bool multiply_alike(const Kernels& one, const Kernels& other);

}  // namespace neuronmm::cpu
