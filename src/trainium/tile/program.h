#pragma once
// This file defines a tile program: a loop nest over tiles for one NeuronCore. The kernels
// (trainium/kernels) write a program once with tile/builder.h. The checker, the interpreter, the
// timing model, the NKI emitter and the tuner all read the same program. Loops stay symbolic and
// affine, so nothing is unrolled.
//
// A program is plain data and may be malformed. Readers may rely on valid numbers of loops, buffers
// and dimensions only after check_structure (tile/checker.h) has accepted the program.
//
// Ragged sizes: the extent of a tile is min(size, limit - origin), so the last tile of a dimension
// is as large as what is left. The first dimension of an on-chip buffer is the partition (at most
// 128), and its other dimensions lie along the free dimension.

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

using LoopId = int32_t;    // An index into the values of all loop variables.
using BufferId = int32_t;  // An index into Program::buffers.

inline constexpr size_t kMaxDimensions = 5;  // The most dimensions that a buffer may have.

// An affine expression: constant + sum of coefficient · loop variable. The terms are sorted by
// loop, and no coefficient is 0.
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

// The extent of a tile, in elements: min(max, limit - origin). The tile starts at `origin` in a
// dimension of `limit` elements.
struct Size {
  int64_t max = 1;
  std::optional<int64_t> limit = std::nullopt;  // If `limit` is empty, the extent is always `max`.
  Affine origin = 0;

  int64_t eval(std::span<const int64_t> loop_values) const;
};

// The elements [start, start + size) of one dimension. If `index` is true, the slice is the single
// element at `start`, and the instruction does not see this dimension.
struct Slice {
  Affine start;
  Size size;
  bool index = false;
};

// A rectangular part of a buffer, with one slice per dimension of the buffer.
struct Access {
  BufferId buffer = -1;
  std::vector<Slice> slices;
  // The place along the first dimension if only the data can tell it: an access to one int32 in
  // SBUF, which the program reads when it gets here. The number is added to the start of the first
  // slice, which must be a single element. Otherwise it is empty. Only a load from HBM may have it.
  std::vector<Access> index = {};
};

// The memories of a device. HBM buffers have a role; on-chip buffers have the role kNone.
enum class Memory { kHbm, kSbuf, kPsum };
enum class HbmRole { kNone, kInput, kOutput, kScratch };

// A named array in HBM, SBUF or PSUM that instructions read and write.
struct Buffer {
  std::string name;
  Memory memory = Memory::kSbuf;
  DType dtype = DType::kBF16;  // The element type: kBF16 or kF32, or kI32 for numbers of places.
  Shape shape;                 // On chip the shape is [partitions, free...].
  HbmRole role = HbmRole::kNone;
  // The number of instances of an on-chip buffer that rotate. The Allocate node makes a new
  // instance each time the program reaches it. Instance n reuses the memory of instance n - copies,
  // so it must wait until the last reader of that instance is done. One copy means no overlap, two
  // mean double buffering.
  int64_t copies = 1;
  // The input whose elements this HBM buffer shows in another shape, in row-major order, or -1. A
  // view is read and never written. It lets a contraction over K run in the order k = p · K/128 +
  // j: the view [128, K/128, N] of x [K, N] gives each partition p consecutive rows of x.
  BufferId view_of = -1;
  // True for a view [P, tiles, N] that is ordered tile after tile of P rows, instead of row-major.
  // Element [p, j, n] of the view is element [j · P + p, n] of the input, so one transfer can move
  // many tiles. Rows beyond the last whole tile are not in the view. A view [E, P, tiles, N] shows
  // an input of E matrices, one below the other, each of them in this order.
  bool row_tiles = false;
  // The rows of each of the E matrices of such a view, which fill a part of a tile at the end.
  int64_t matrix_rows = 0;

  bool is_view() const { return view_of >= 0; }
  int64_t free_bytes() const;  // Returns the bytes per partition of one instance.
  // Returns the distance between neighbours along each dimension, in elements.
  std::array<int64_t, kMaxDimensions> strides() const;
};

enum class Engine { kAny, kTensor, kVector, kScalar, kGpSimd };
enum class BinaryOp { kAdd, kMultiply };
enum class Activation { kCopy, kSilu };

// Copies HBM -> SBUF, SBUF -> HBM or HBM -> HBM. The shapes of dst and src are equal after indexed
// dimensions are dropped. If `transpose` is true, dst[j, i] = src[i, j].
struct DmaCopy {
  Access dst, src;
  bool transpose = false;
};
// Multiplies on the Tensor engine: dst[M, N] (PSUM) (+)= stationary[K, M]^T · moving[K, N] (both in
// SBUF). The instruction overwrites dst when all loops in `sum_loops` are at 0, and otherwise adds
// to dst. If `sum_loops` is empty, it always overwrites. If `always_adds` is true, it adds to what
// an earlier instruction has left in dst.
struct NcMatmul {
  Access dst, stationary, moving;
  std::vector<LoopId> sum_loops;
  bool always_adds = false;
};
// Transposes on the Tensor engine: dst[N, M] (PSUM) = src[M, N] (SBUF), with at most 128 x 128
// elements.
struct NcTranspose {
  Access dst, src;
};
// Copies between on-chip buffers and converts to the dtype of dst.
struct TensorCopy {
  Access dst, src;
  Engine engine = Engine::kAny;
};
struct TensorTensor {  // Combines two tiles element by element: dst = a op b.
  Access dst, a, b;
  BinaryOp op = BinaryOp::kAdd;
};
// Adds a tile with a factor per partition on the Vector engine: dst = src · scale + addend. `scale`
// holds one fp32 element per partition.
struct ScaleAdd {
  Access dst, src, scale, addend;
};
struct Activate {  // Applies a function to each element on the Scalar engine: dst = function(src).
  Access dst, src;
  Activation function = Activation::kCopy;
};
// Fills dst with one value.
struct Memset {
  Access dst;
  float value = 0.0f;
};

using Operation = std::variant<DmaCopy, NcMatmul, NcTranspose, TensorCopy, TensorTensor, Activate,
                               Memset, ScaleAdd>;

// Makes a new instance of an on-chip buffer.
struct Allocate {
  BufferId buffer;
};
// An operation with its label.
struct Instruction {
  Operation operation;
  std::string label;  // The instruction's purpose, for messages and traces: "load U block".
};

struct Loop;
using Node = std::variant<Allocate, Instruction, Loop>;

// A loop: for id in [0, trip count), where trip count = min(max, ceil((limit - origin) / step)).
// Without a limit the trip count is `max`.
struct Loop {
  LoopId id = -1;
  std::string name;  // The name for messages and printed source: "m", "k_tile".
  int64_t max = 1;
  int64_t step = 1;  // The elements that one iteration advances.
  // The kernel's name for its step, for printed source: "BM". It may be empty.
  std::string step_name;
  std::optional<int64_t> limit;
  Affine origin;
  bool carried = false;  // True if an iteration depends on earlier ones.
  // True if the iterations run in parallel, each on a core of its own. Only the outermost loop may
  // have this.
  bool cores = false;
  std::vector<Node> body;

  int64_t trip_count(std::span<const int64_t> loop_values) const;
};

// A whole program: its buffers by BufferId, and its nodes in execution order.
struct Program {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Node> body;
  int32_t num_loops = 0;  // The number of loop variables in the whole program.

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id)]; }
};

}  // namespace neuronmm::tile
