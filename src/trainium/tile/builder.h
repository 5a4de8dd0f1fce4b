#pragma once
// This file builds tile programs (tile/program.h). The kernels in trainium/kernels and
// trainium/validation use it, and the code of a kernel reads like its loop nest.
//
//   Builder b("matmul");
//   const BufferId x = b.input("x", dtype, {K, M}), w = b.input("w", dtype, {K, N}), ...;
//   b.loop("m", M, 128, [&](const Tile& m) {
//     b.loop("n", N, 512, [&](const Tile& n) {
//       const BufferId psum = b.psum("psum", {128, 512}, 2);
//       b.loop("k", K, 128, [&](const Tile& k) {
//         const BufferId x_tile = b.sbuf("x_tile", dtype, {128, 128}, 2), w_tile = ...;
//         b.load(at(x_tile, {upto(k), upto(m)}), at(x, {k, m}));
//         b.load(at(w_tile, {upto(k), upto(n)}), at(w, {k, n}));
//         b.matmul(at(psum, {upto(m), upto(n)}), at(x_tile, {upto(k), upto(m)}), ..., {k});
//       });
//       ...
//
// A mistake of the kernel's author, such as a step that does not divide its block, fails a CHECK.
// The builder does not check the rules of the machine; tile/checker.h does.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "trainium/tile/program.h"

namespace neuronmm::tile {

// Returns how many steps of size b cover a.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How far a loop advances in one iteration, in elements, and the name of this step in printed
// source. A plain number converts to a step.
struct Step {
  int64_t size;
  std::string name;

  Step(int64_t elements, std::string_view step_name = "")  // NOLINT: see above
      : size(elements), name(step_name) {}
  operator int64_t() const { return size; }  // NOLINT
};

// The elements [start, start + size) of a dimension that one iteration of a loop covers.
struct Tile {
  Affine start;
  Size size;
  int64_t step = 1;
  LoopId loop = -1;

  // Returns how many tiles of this loop lie before this one: index() counts from the loop's own
  // beginning, and index_in() counts from the beginning of `outer`.
  Affine index() const;
  Affine index_in(const Tile& outer) const;
  // Returns the tile's elements, counted from the start of `outer`.
  Slice in(const Tile& outer) const;
  operator Slice() const { return {start, size}; }  // NOLINT: a tile is a slice of its dimension
};

Slice upto(const Tile& tile);      // The slice [0, size of the tile).
Slice all(int64_t size);           // The slice [0, size).
Slice one(const Affine& element);  // A single element; the dimension is dropped.
Access at(BufferId buffer, std::initializer_list<Slice> slices);
// Returns the access to a part of one of several matrices, which the int32 at `index` numbers.
// `slices` are those of the matrix.
Access at_index(BufferId buffer, const Access& index, std::initializer_list<Slice> slices);

// Collects buffers, loops and instructions in the order of the calls, and hands the finished
// program over once.
class Builder {
 public:
  explicit Builder(std::string_view program_name);

  BufferId input(std::string_view name, DType dtype, const Shape& shape);
  BufferId output(std::string_view name, DType dtype, const Shape& shape);
  // Declares a buffer in HBM for intermediate results.
  BufferId scratch(std::string_view name, DType dtype, const Shape& shape);
  // Declares a view: an input in another shape with as many elements.
  BufferId view(std::string_view name, BufferId input, const Shape& shape);
  // Declares a view of the whole tiles of 128 rows of an input [rows, columns], as [128, tiles,
  // columns].
  BufferId row_tiles(std::string_view name, BufferId input);

  // Declare views of an input that holds matrices [rows, columns], one below the other: one view
  // [matrices, rows, columns], and one of their whole tiles of 128 rows, [matrices, 128, tiles,
  // columns]. An access() with an index picks the matrix.
  BufferId matrices(std::string_view name, BufferId input, int64_t rows);
  BufferId matrix_row_tiles(std::string_view name, BufferId input, int64_t rows);

  // Declares an on-chip buffer and allocates it here. The program makes a fresh instance each time
  // it reaches this point.
  BufferId sbuf(std::string_view name, DType dtype, const Shape& shape, int64_t copies = 1);
  BufferId psum(std::string_view name, const Shape& shape, int64_t copies);
  // Declares an on-chip buffer without allocating it. Use it with allocate() for memory that
  // several parts of a kernel share.
  BufferId declare_sbuf(std::string_view name, DType dtype, const Shape& shape, int64_t copies);
  BufferId declare_psum(std::string_view name, const Shape& shape, int64_t copies,
                        DType dtype = DType::kF32);
  void allocate(BufferId buffer);

  // Whether an iteration depends on earlier ones (kCarried).
  enum class Iterations { kIndependent, kCarried };
  // Adds a loop over the elements of `dimension`, `step` at a time. Calls `body` once with the
  // symbolic tile of an iteration, and adds everything that `body` emits to the loop.
  template <typename Body>
  void loop(std::string_view name, const Tile& dimension, const Step& step, const Body& body,
            Iterations iterations = Iterations::kIndependent) {
    std::vector<Node>* const outer = body_;
    auto [loop, tile] = open(name, dimension, step, iterations);
    body_ = &loop.body;
    body(static_cast<const Tile&>(tile));
    body_ = outer;
    body_->emplace_back(std::in_place_type<Loop>, std::move(loop));
  }
  template <typename Body>
  void loop(std::string_view name, int64_t dimension, const Step& step, const Body& body,
            Iterations iterations = Iterations::kIndependent) {
    loop(name, Tile{.start = 0, .size = {.max = dimension}}, step, body, iterations);
  }

  // The following functions emit one instruction each; program.h says what each instruction does.
  // Labels are made from the names of the buffers. matmul() starts a new sum when all loops of
  // `sum_loops` are at 0.
  void load(Access dst, Access src);
  void load_transposed(Access dst, Access src);
  void store(Access dst, Access src);
  void matmul(Access dst, Access stationary, Access moving, std::initializer_list<Tile> sum_loops);
  void matmul_adding(Access dst, Access stationary, Access moving);  // Adds to an unfinished sum.
  void transpose(Access dst, Access src);
  void copy(Access dst, Access src);
  void add(Access dst, Access a, Access b);
  void multiply(Access dst, Access a, Access b);
  void scale_add(Access dst, Access src, Access scale, Access addend);
  void silu(Access dst, Access src);
  void zero(Access dst);

  DType dtype(BufferId buffer) const { return program_.buffer(buffer).dtype; }
  const Buffer& buffer(BufferId id) const { return program_.buffer(id); }

  // Returns the program. The builder must not be used after it.
  Program finish() { return std::move(program_); }

 private:
  BufferId declare(Buffer buffer);
  std::pair<Loop, Tile> open(std::string_view name, const Tile& dimension, const Step& step,
                             Iterations iterations);
  void emit(Operation operation, std::string label);
  const std::string& name(const Access& access) const {
    return program_.buffer(access.buffer).name;
  }

  Program program_;
  std::vector<Node>* body_;
};

}  // namespace neuronmm::tile
