#pragma once
// Builds a tile program. A kernel reads like its loop nest:
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
// Errors of a kernel's author (a step that does not divide its block) are CHECKs.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "trainium/tile/program.h"

namespace neuronmm::tile {

// How many steps of b cover a.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How far a loop advances in one iteration, and what printed source calls it. A number is a step.
struct Step {
  int64_t size;
  std::string name;

  Step(int64_t elements, std::string_view called = "")  // NOLINT: see above
      : size(elements), name(called) {}
  operator int64_t() const { return size; }  // NOLINT
};

// What one iteration of a loop covers of its dimension: [start, start + size).
struct Tile {
  Affine start;
  Size size;
  int64_t step = 1;
  LoopId loop = -1;

  // How many tiles of this loop lie before it: in its own loop (the loop variable), in `outer`.
  Affine index() const;
  Affine index_in(const Tile& outer) const;
  Slice in(const Tile& outer) const;  // the same elements, counted from the start of `outer`
  operator Slice() const { return {start, size}; }  // NOLINT: a tile is a slice of its dimension
};

Slice upto(const Tile& tile);      // [0, size of the tile)
Slice all(int64_t size);           // [0, size)
Slice one(const Affine& element);  // one element; the dimension is dropped
Access at(BufferId buffer, std::initializer_list<Slice> slices);

class Builder {
 public:
  explicit Builder(std::string_view program_name);

  BufferId input(std::string_view name, DType dtype, const Shape& shape);
  BufferId output(std::string_view name, DType dtype, const Shape& shape);
  BufferId scratch(std::string_view name, DType dtype, const Shape& shape);  // in HBM
  // An input in another shape of as many elements.
  BufferId view(std::string_view name, BufferId input, const Shape& shape);
  // The whole tiles of 128 rows of an input [rows, columns] as [128, tiles, columns].
  BufferId row_tiles(std::string_view name, BufferId input);

  // Declares an on-chip buffer and allocates it here: a fresh instance each time this is reached.
  BufferId sbuf(std::string_view name, DType dtype, const Shape& shape, int64_t copies = 1);
  BufferId psum(std::string_view name, const Shape& shape, int64_t copies);
  // The same in two steps, for memory that several parts of a kernel share.
  BufferId declare_sbuf(std::string_view name, DType dtype, const Shape& shape, int64_t copies);
  BufferId declare_psum(std::string_view name, const Shape& shape, int64_t copies,
                        DType dtype = DType::kF32);
  void allocate(BufferId buffer);

  enum class Iterations { kIndependent, kCarried };
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

  // The instructions; program.h says what each does. Their labels are made of the buffers' names.
  void load(Access dst, Access src);
  void load_transposed(Access dst, Access src);
  void store(Access dst, Access src);
  void matmul(Access dst, Access stationary, Access moving, std::initializer_list<Tile> first);
  void matmul_onto(Access dst, Access stationary, Access moving);  // adds to an unfinished sum
  void transpose(Access dst, Access src);
  void copy(Access dst, Access src);
  void add(Access dst, Access a, Access b);
  void multiply(Access dst, Access a, Access b);
  void silu(Access dst, Access src);
  void zero(Access dst);

  DType dtype(BufferId buffer) const { return program_.buffer(buffer).dtype; }
  const Buffer& buffer(BufferId id) const { return program_.buffer(id); }

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
