#pragma once
// A tile program: a loop nest over tiles for one NeuronCore, written once and read by many
// (checker, interpreter, timing model, NKI emitter, tuner). Loops stay symbolic and affine; nothing
// is unrolled. It is plain data: tile/builder.h makes one.
//
// Ragged sizes: a tile's extent is min(size, limit - origin), so that the last tile of a dimension
// is as large as what is left. On-chip buffers have the partition as their first dimension (at most
// 128); the others lie along the free dimension.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/tensor.h"

namespace neuronmm::tile {

using LoopId = int32_t;    // index into the values of all loop variables
using BufferId = int32_t;  // index into Program::buffers

inline constexpr size_t kMaxDimensions = 5;  // of a buffer

// constant + sum of coefficient · loop variable.
struct Affine {
  int64_t constant = 0;
  std::vector<std::pair<LoopId, int64_t>> terms;

  Affine() = default;
  Affine(int64_t value) : constant(value) {}  // NOLINT: a number is an affine expression
  int64_t eval(std::span<const int64_t> loop_values) const {
    int64_t value = constant;
    for (const auto& [loop, coefficient] : terms) value += coefficient * loop_values[loop];
    return value;
  }
};
Affine operator+(const Affine& a, const Affine& b);
Affine operator-(const Affine& a, const Affine& b);
Affine operator*(const Affine& a, int64_t factor);
bool operator==(const Affine& a, const Affine& b);

// min(max, limit - origin): the extent of a tile that starts at `origin` of a dimension of `limit`
// elements.
struct Size {
  int64_t max = 1;
  std::optional<int64_t> limit = std::nullopt;  // empty: always `max`
  Affine origin = 0;

  int64_t eval(std::span<const int64_t> loop_values) const;
};

// The elements [start, start + size) of one dimension. `index`: one element, and the dimension is
// dropped.
struct Slice {
  Affine start;
  Size size;
  bool index = false;
};

// A rectangular part of a buffer: one slice per dimension.
struct Access {
  BufferId buffer = -1;
  std::vector<Slice> slices;
};

enum class Memory { kHbm, kSbuf, kPsum };
enum class HbmRole { kNone, kInput, kOutput, kScratch };

struct Buffer {
  std::string name;
  Memory memory = Memory::kSbuf;
  DType dtype = DType::kBF16;  // kBF16 or kF32
  Shape shape;                 // SBUF, PSUM: [partitions, free...]
  HbmRole role = HbmRole::kNone;
  // On chip: how many instances rotate. The Allocate node makes a new instance each time it is
  // reached; instance n reuses the memory of instance n - copies and must wait until that one's
  // last reader is done. 1 = no overlap, 2 = double buffering.
  int64_t copies = 1;
  // In HBM: the elements of this input, in their row-major order, in another shape. It is read and
  // never written. So a contraction over K can run in the order k = p · K/128 + j, in which each
  // partition p has consecutive rows of x [K, N] as [128, K/128, N].
  BufferId view_of = -1;
  // Of a view [P, tiles, N]: not in row-major order, but tile after tile of P rows. Its element
  // [p, j, n] is [j · P + p, n] of the input, so that many tiles are one transfer. Rows beyond the
  // last whole tile are not in it.
  bool row_tiles = false;

  bool is_view() const { return view_of >= 0; }
  int64_t free_bytes() const;  // bytes per partition of one instance
  // How far apart neighbours along each dimension lie, in elements.
  std::array<int64_t, kMaxDimensions> strides() const;
};

enum class Engine { kAny, kTensor, kVector, kScalar, kGpSimd };
enum class BinaryOp { kAdd, kMultiply };
enum class Activation { kCopy, kSilu };

// HBM -> SBUF, SBUF -> HBM or HBM -> HBM; equal shapes after dropped dimensions. `transpose`:
// dst[j, i] = src[i, j].
struct DmaCopy {
  Access dst, src;
  bool transpose = false;
};
// dst[M, N] (PSUM) (+)= stationary[K, M]^T · moving[K, N] (both SBUF). Overwrites where all `first`
// loops are at 0, else adds; empty `first`: always overwrites. `adds`: always adds, to what an
// instruction before it has left there.
struct NcMatmul {
  Access dst, stationary, moving;
  std::vector<LoopId> first;
  bool adds = false;
};
struct NcTranspose {  // dst[N, M] (PSUM) = src[M, N] (SBUF), on the Tensor engine; at most 128 x
                      // 128
  Access dst, src;
};
struct TensorCopy {
  Access dst, src;
  Engine engine = Engine::kAny;
};
struct TensorTensor {  // dst = a op b
  Access dst, a, b;
  BinaryOp op = BinaryOp::kAdd;
};
struct Activate {  // dst = function(src), on the Scalar engine
  Access dst, src;
  Activation function = Activation::kCopy;
};
struct Memset {
  Access dst;
  float value = 0.0f;
};

using Operation =
    std::variant<DmaCopy, NcMatmul, NcTranspose, TensorCopy, TensorTensor, Activate, Memset>;

struct Allocate {
  BufferId buffer;
};
struct Instruction {
  Operation operation;
  std::string label;  // what it does, for messages and traces: "load U block"
};

struct Loop;
using Node = std::variant<Allocate, Instruction, Loop>;

// for id in [0, trip count), trip count = min(max, ceil((limit - origin) / step)).
struct Loop {
  LoopId id = -1;
  std::string name;  // "m", "k_tile"
  int64_t max = 1;
  int64_t step = 1;       // elements that one iteration advances
  std::string step_name;  // what the kernel calls its step, for printed source: "BM"; may be empty
  std::optional<int64_t> limit;
  Affine origin;
  bool carried = false;  // iterations depend on one another
  // Iterations run side by side, each on a core of its own; the outermost loop alone.
  bool cores = false;
  std::vector<Node> body;

  int64_t trip_count(std::span<const int64_t> loop_values) const;
};

struct Program {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Node> body;
  int32_t num_loops = 0;  // loop variables in all

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id)]; }
};

}  // namespace neuronmm::tile
