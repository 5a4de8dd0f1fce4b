#pragma once
// Intel AMX, which multiplies matrices in tile registers: the configuration that LDTILECFG reads,
// and checks whether this process may use AMX. The kernels are tested on CPUs with AMX, and
// everywhere with emulated instructions (tests/cpu/emulated_tiles.h). Hypervisors and emulators may
// support AMX incompletely. best_kernels() therefore compares a small product with the one of
// ordinary instructions before it uses the tiles.

#include <cstdint>

namespace neuronmm::cpu {

struct Kernels;

// The 64 bytes that LDTILECFG reads, and the limits of palette 1. Documented: Intel Software
// Developer's Manual, volume 2A, LDTILECFG. A tile is `rows` rows of `row_bytes` bytes.
struct TileConfig {
  static constexpr int kTiles = 8;
  static constexpr int kMaxRows = 16;
  static constexpr int kMaxRowBytes = 64;

  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[2 * kTiles] = {};  // the second half of this array and the next is reserved
  uint8_t rows[2 * kTiles] = {};
};
static_assert(sizeof(TileConfig) == 64);

// Returns whether this process may use AMX. The CPU must have the instructions for tiles of bytes
// and of bf16, as every CPU with AMX so far has. The operating system must have granted the process
// the tile registers; the first call asks Linux for them, for all threads of the process. Only to
// be called on CPUs with AVX: others lack the instruction that tells what the system has enabled.
bool amx_granted();

// Returns whether both tables give the same bits for int8 products, whatever the number of rows.
bool multiply_alike(const Kernels& one, const Kernels& other);

}  // namespace neuronmm::cpu
