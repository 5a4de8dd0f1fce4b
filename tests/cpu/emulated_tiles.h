#pragma once
// The instructions of cpu/amx_tiles-inl.h in plain C++, one method each. They were written from the
// operations in Intel's Software Developer's Manual, volume 2 (LDTILECFG, TILELOADD, TILESTORED,
// TILEZERO, TILERELEASE, TDPBSUD, TDPBSSD,
// TDPBF16PS). Where the CPU would fault, an NMM_CHECK fails.

#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/result.h"
#include "cpu/amx.h"

namespace neuronmm::cpu {

class EmulatedTiles {
 public:
  // Reads the configuration as the manual numbers its bytes. Byte 0 is the palette and byte 1 is
  // start_row. The row lengths of the tiles, in bytes, begin at byte 16, and their numbers of rows
  // at byte 48. The other bytes are reserved.
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

  // The state of the calling thread's tiles.
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
  static void dot_bytes() {
    for_each_sum<int32_t, kC, kA, kB>([](int32_t& sum, size_t row_bytes, size_t m, size_t n) {
      const auto& tiles = state().tiles;
      for (size_t k = 0; k < row_bytes; ++k) {
        sum += static_cast<int8_t>(tiles[kA][m][k]) * tiles[kB][k / 4][n + k % 4];
      }
    });
  }
  // TDPBSSD C, A, B.
  template <int kC, int kA, int kB>
  static void dot_signed_bytes() {
    for_each_sum<int32_t, kC, kA, kB>([](int32_t& sum, size_t row_bytes, size_t m, size_t n) {
      const auto& tiles = state().tiles;
      for (size_t k = 0; k < row_bytes; ++k) {
        sum +=
            static_cast<int8_t>(tiles[kA][m][k]) * static_cast<int8_t>(tiles[kB][k / 4][n + k % 4]);
      }
    });
  }

  // TDPBF16PS C, A, B: adds the sums of the products of even and of odd columns of A. Each is a
  // chain of multiply-adds that are rounded once. Denormals are zeros.
  template <int kC, int kA, int kB>
  static void dot_bf16() {
    for_each_sum<float, kC, kA, kB>([](float& sum, size_t row_bytes, size_t m, size_t n) {
      const auto& tiles = state().tiles;
      float of_pairs[2] = {};
      for (size_t k = 0; k < row_bytes; k += 2) {
        const float x = bf16_at(&tiles[kA][m][k]), w = bf16_at(&tiles[kB][k / 4][n + k % 4]);
        float& of_parity = of_pairs[k / 2 % 2];
        // The product of two bf16 has 16 bits and is exact unless it is tiny.
        const float product = x * w;
        of_parity =
            normal(std::abs(product) >= FLT_MIN ? of_parity + product : std::fma(x, w, of_parity));
      }
      sum = normal(sum + normal(of_pairs[0] + of_pairs[1]));
    });
  }

 private:
  static constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;  // the limits of palette 1
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
  // Calls add(the sum, bytes of a row of A, its row m, the byte of its column in a row of B) for
  // all of C.
  template <class Sum, int kC, int kA, int kB, class Add>
  static void for_each_sum(const Add& add) {
    static_assert(kC != kA && kC != kB && kA != kB);  // otherwise #UD, like the next checks
    const Shape c = shape(kC), a = shape(kA), b = shape(kB);
    NMM_CHECK(c.rows == a.rows && c.row_bytes == b.row_bytes && a.row_bytes == 4 * b.rows);
    NMM_CHECK(c.row_bytes % 4 == 0 && a.row_bytes % 4 == 0);
    ++products();
    Data& tile = state().tiles[kC];
    for (size_t m = 0; m < static_cast<size_t>(c.rows); ++m) {
      for (size_t n = 0; n < static_cast<size_t>(c.row_bytes); n += sizeof(Sum)) {
        Sum sum = 0;
        std::memcpy(&sum, &tile[m][n], sizeof(sum));
        add(sum, static_cast<size_t>(a.row_bytes), m, n);
        std::memcpy(&tile[m][n], &sum, sizeof(sum));
      }
    }
  }
  static float bf16_at(const uint8_t* bytes) {
    const uint32_t bits = uint32_t{bytes[0]} << 16 | uint32_t{bytes[1]} << 24;
    return normal(std::bit_cast<float>(bits));
  }
  static float normal(float x) { return std::abs(x) < FLT_MIN ? 0.0f * x : x; }

  static Shape shape(size_t tile) {
    NMM_CHECK(state().configured && state().shapes[tile].rows != 0);
    return state().shapes[tile];
  }
};

}  // namespace neuronmm::cpu
