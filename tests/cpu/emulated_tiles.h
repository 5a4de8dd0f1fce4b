#pragma once
// The instructions of cpu/amx_matmul-inl.h in plain C++, one method each, written from the
// operations in Intel's Software Developer's Manual, volume 2 (LDTILECFG, TILELOADD, TILESTORED,
// TILEZERO, TILERELEASE, TDPBSUD). What faults there fails here.

#include <array>
#include <cstdint>
#include <cstring>

#include "base/result.h"
#include "cpu/amx.h"

namespace neuronmm::cpu {

class EmulatedTiles {
 public:
  // From the 64 bytes as the manual numbers them: 0 palette, 1 start_row, 16 ... bytes of a row of
  // each tile, 48 ... rows, the others reserved.
  static void configure(const TileConfig& config) {
    uint8_t bytes[64];
    std::memcpy(bytes, &config, sizeof(bytes));
    NMM_CHECK(bytes[0] == 1 && bytes[1] == 0);
    for (int i = 2; i < 64; ++i) {
      NMM_CHECK((i >= 16 && i < 32) || (i >= 48 && i < 56) || bytes[i] == 0);
    }
    state() = {};
    for (int tile = 0; tile < kTiles; ++tile) {
      const Shape shape = {bytes[48 + tile], bytes[16 + 2 * tile] + 256 * bytes[17 + 2 * tile]};
      NMM_CHECK(shape.rows <= kRows && shape.row_bytes <= kRowBytes);
      NMM_CHECK((shape.rows == 0) == (shape.row_bytes == 0));
      state().shapes[static_cast<size_t>(tile)] = shape;
    }
    state().configured = true;
  }
  static void release() { state() = {}; }

  // Of the calling thread.
  static bool configured() { return state().configured; }
  static int64_t& products() {
    static thread_local int64_t count = 0;
    return count;
  }

  template <int kTile>
  static void zero() {
    shape(kTile);
    state().tiles[kTile] = {};
  }

  template <int kTile>
  static void load(const void* from, int64_t stride) {
    const Shape s = shape(kTile);
    Data& tile = state().tiles[kTile];
    tile = {};
    for (int r = 0; r < s.rows; ++r) {
      std::memcpy(tile[static_cast<size_t>(r)].data(), static_cast<const char*>(from) + r * stride,
                  static_cast<size_t>(s.row_bytes));
    }
  }

  template <int kTile>
  static void store(void* to, int64_t stride) {
    const Shape s = shape(kTile);
    for (int r = 0; r < s.rows; ++r) {
      std::memcpy(static_cast<char*>(to) + r * stride,
                  state().tiles[kTile][static_cast<size_t>(r)].data(),
                  static_cast<size_t>(s.row_bytes));
    }
  }

  // TDPBSUD C, A, B.
  template <int kC, int kA, int kB>
  static void dot() {
    static_assert(kC != kA && kC != kB && kA != kB);  // else #UD, as the next ones
    const Shape c = shape(kC), a = shape(kA), b = shape(kB);
    NMM_CHECK(c.rows == a.rows && c.row_bytes == b.row_bytes && a.row_bytes == 4 * b.rows);
    NMM_CHECK(c.row_bytes % 4 == 0 && a.row_bytes % 4 == 0);
    ++products();
    auto& tiles = state().tiles;
    for (size_t m = 0; m < static_cast<size_t>(c.rows); ++m) {
      for (size_t n = 0; n < static_cast<size_t>(c.row_bytes); n += 4) {
        int32_t sum = 0;
        std::memcpy(&sum, &tiles[kC][m][n], sizeof(sum));
        for (size_t k = 0; k < static_cast<size_t>(a.row_bytes); ++k) {
          sum += static_cast<int8_t>(tiles[kA][m][k]) * tiles[kB][k / 4][n + k % 4];
        }
        std::memcpy(&tiles[kC][m][n], &sum, sizeof(sum));
      }
    }
  }

 private:
  static constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;  // of palette 1
  using Data = std::array<std::array<uint8_t, kRowBytes>, kRows>;
  struct Shape {
    int rows, row_bytes;
  };
  struct State {
    bool configured;
    std::array<Shape, kTiles> shapes;
    std::array<Data, kTiles> tiles;
  };

  static State& state() {  // every thread has its own registers
    static thread_local State state = {};
    return state;
  }
  static Shape shape(size_t tile) {
    NMM_CHECK(state().configured && state().shapes[tile].rows != 0);
    return state().shapes[tile];
  }
};

}  // namespace neuronmm::cpu
