#include "trainium/tile/builder.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/result.h"

namespace neuronmm::tile {
namespace {

Affine variable(LoopId loop) {
  Affine affine;
  affine.terms.emplace_back(loop, 1);
  return affine;
}

// Returns true if the expression is a multiple of `factor` at all values of its loops.
bool is_multiple(const Affine& affine, int64_t factor) {
  return affine.constant % factor == 0 &&
         std::all_of(affine.terms.begin(), affine.terms.end(),
                     [factor](const auto& term) { return term.second % factor == 0; });
}

}  // namespace

Affine Tile::index() const { return variable(loop); }

// The result is an index into a buffer that holds one tile per index. The CHECK fails if the
// distance is not a whole number of tiles, which is a mistake of the kernel's author.
Affine Tile::index_in(const Tile& outer) const {
  Affine quotient = start - outer.start;
  NMM_CHECK(is_multiple(quotient, step));
  quotient.constant /= step;
  for (auto& [id, coefficient] : quotient.terms) coefficient /= step;
  return quotient;
}

Slice Tile::in(const Tile& outer) const { return {start - outer.start, size}; }

Slice upto(const Tile& tile) { return {0, tile.size}; }
Slice all(int64_t size) { return {0, {.max = size}}; }
Slice one(const Affine& element) { return {element, {}, true}; }
Access at(BufferId buffer, std::initializer_list<Slice> slices) { return {buffer, slices}; }
Access at_index(BufferId buffer, const Access& index, std::initializer_list<Slice> slices) {
  Access access{.buffer = buffer, .slices = {one(0)}, .index = {index}};
  access.slices.insert(access.slices.end(), slices);
  return access;
}

Builder::Builder(std::string_view program_name) : body_(&program_.body) {
  program_.name = program_name;
}

// Numbers the buffers in the order of their declaration.
BufferId Builder::declare(Buffer buffer) {
  program_.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(program_.buffers.size()) - 1;
}

BufferId Builder::input(std::string_view name, DType dtype, const Shape& shape) {
  return declare({std::string(name), Memory::kHbm, dtype, shape, HbmRole::kInput, 1});
}
BufferId Builder::output(std::string_view name, DType dtype, const Shape& shape) {
  return declare({std::string(name), Memory::kHbm, dtype, shape, HbmRole::kOutput, 1});
}
BufferId Builder::scratch(std::string_view name, DType dtype, const Shape& shape) {
  return declare({std::string(name), Memory::kHbm, dtype, shape, HbmRole::kScratch, 1});
}
BufferId Builder::view(std::string_view name, BufferId input, const Shape& shape) {
  Buffer view{std::string(name), Memory::kHbm, dtype(input), shape};
  view.view_of = input;
  return declare(std::move(view));
}

BufferId Builder::row_tiles(std::string_view name, BufferId input) {
  constexpr int64_t kRows = 128;
  const Shape& whole = program_.buffer(input).shape;
  const BufferId id = view(name, input, {kRows, whole[0] / kRows, whole[1]});
  program_.buffers.back().row_tiles = true;
  return id;
}

BufferId Builder::matrices(std::string_view name, BufferId input, int64_t rows) {
  const Shape& whole = program_.buffer(input).shape;
  NMM_CHECK(whole[0] % rows == 0);
  return view(name, input, {whole[0] / rows, rows, whole[1]});
}

BufferId Builder::matrix_row_tiles(std::string_view name, BufferId input, int64_t rows) {
  constexpr int64_t kRows = 128;
  const Shape& whole = program_.buffer(input).shape;
  NMM_CHECK(whole[0] % rows == 0);
  const BufferId id = view(name, input, {whole[0] / rows, kRows, rows / kRows, whole[1]});
  program_.buffers.back().row_tiles = true;
  program_.buffers.back().matrix_rows = rows;
  return id;
}

BufferId Builder::sbuf(std::string_view name, DType dtype, const Shape& shape, int64_t copies) {
  const BufferId id = declare_sbuf(name, dtype, shape, copies);
  allocate(id);
  return id;
}
BufferId Builder::declare_sbuf(std::string_view name, DType dtype, const Shape& shape,
                               int64_t copies) {
  return declare({std::string(name), Memory::kSbuf, dtype, shape, HbmRole::kNone, copies});
}
BufferId Builder::psum(std::string_view name, const Shape& shape, int64_t copies) {
  const BufferId id = declare_psum(name, shape, copies);
  allocate(id);
  return id;
}
BufferId Builder::declare_psum(std::string_view name, const Shape& shape, int64_t copies,
                               DType dtype) {
  return declare({std::string(name), Memory::kPsum, dtype, shape, HbmRole::kNone, copies});
}
void Builder::allocate(BufferId buffer) {
  body_->emplace_back(std::in_place_type<Allocate>, Allocate{buffer});
}

// Returns the loop over `dimension` in steps, and the tile that an iteration covers. `dimension`
// may be a tile of an outer loop. There are three cases:
// * The dimension fits into one step, and the tile covers all of it.
// * The dimension is whole, and only its last tile may be cut off.
// * The dimension is itself a ragged tile, and its limit also cuts off its own tiles.
std::pair<Loop, Tile> Builder::open(std::string_view name, const Tile& dimension,
                                    const Step& named_step, Iterations iterations) {
  const Size& whole = dimension.size;
  const int64_t step = named_step.size;
  // A step of 0 would never end, and an empty dimension has no first tile. Such calls are mistakes
  // of the kernel's author.
  NMM_CHECK(step > 0 && whole.max > 0);
  Loop loop;
  loop.id = program_.num_loops++;
  loop.name = name;
  loop.max = ceil_div(whole.max, step);
  loop.step = step;
  loop.step_name = named_step.name;
  loop.carried = iterations == Iterations::kCarried;

  const Affine offset = variable(loop.id) * step;
  Tile tile{.start = dimension.start + offset, .size = whole, .step = step, .loop = loop.id};
  if (loop.max == 1) return {std::move(loop), std::move(tile)};
  tile.size.max = step;
  if (whole.limit) {
    NMM_CHECK(whole.max % step == 0);  // Otherwise a tile could reach beyond its block.
    loop.limit = whole.limit;
    loop.origin = whole.origin;
    tile.size.origin = whole.origin + offset;
    // No tile is ever cut off if limit and origin are multiples of the step. The sizes are then
    // constant, which keeps printed programs and emitted source short.
    const bool exact = *whole.limit % step == 0 && is_multiple(whole.origin, step);
    if (exact) tile.size = {.max = step};
  } else if (whole.max % step != 0) {
    tile.size.limit = whole.max;
    tile.size.origin = offset;
  }
  return {std::move(loop), std::move(tile)};
}

void Builder::emit(Operation operation, std::string label) {
  body_->emplace_back(std::in_place_type<Instruction>,
                      Instruction{std::move(operation), std::move(label)});
}

void Builder::load(Access dst, Access src) {
  std::string label = fmt::format("load {}", name(dst));
  emit(DmaCopy{std::move(dst), std::move(src)}, std::move(label));
}
void Builder::load_transposed(Access dst, Access src) {
  std::string label = fmt::format("load {} transposed", name(dst));
  emit(DmaCopy{std::move(dst), std::move(src), true}, std::move(label));
}
void Builder::store(Access dst, Access src) {
  std::string label = fmt::format("store {}", name(dst));
  emit(DmaCopy{std::move(dst), std::move(src)}, std::move(label));
}
void Builder::matmul(Access dst, Access stationary, Access moving,
                     std::initializer_list<Tile> sum_loops) {
  std::string label = fmt::format("matmul {} x {}", name(stationary), name(moving));
  std::vector<LoopId> loops;
  for (const Tile& tile : sum_loops) loops.push_back(tile.loop);
  emit(NcMatmul{std::move(dst), std::move(stationary), std::move(moving), std::move(loops)},
       std::move(label));
}
void Builder::matmul_adding(Access dst, Access stationary, Access moving) {
  std::string label = fmt::format("matmul {} x {}", name(stationary), name(moving));
  emit(NcMatmul{std::move(dst), std::move(stationary), std::move(moving), {}, true},
       std::move(label));
}
void Builder::transpose(Access dst, Access src) {
  std::string label = fmt::format("transpose {}", name(src));
  emit(NcTranspose{std::move(dst), std::move(src)}, std::move(label));
}
void Builder::copy(Access dst, Access src) {
  std::string label = fmt::format("copy {} to {}", name(src), name(dst));
  emit(TensorCopy{std::move(dst), std::move(src)}, std::move(label));
}
void Builder::add(Access dst, Access a, Access b) {
  std::string label = fmt::format("add {} to {}", name(b), name(dst));
  emit(TensorTensor{std::move(dst), std::move(a), std::move(b), BinaryOp::kAdd}, std::move(label));
}
void Builder::multiply(Access dst, Access a, Access b) {
  std::string label = fmt::format("multiply {} by {}", name(a), name(b));
  emit(TensorTensor{std::move(dst), std::move(a), std::move(b), BinaryOp::kMultiply},
       std::move(label));
}
void Builder::scale_add(Access dst, Access src, Access scale, Access addend) {
  std::string label = fmt::format("add {} times {} to {}", name(src), name(scale), name(dst));
  emit(ScaleAdd{std::move(dst), std::move(src), std::move(scale), std::move(addend)},
       std::move(label));
}
void Builder::silu(Access dst, Access src) {
  std::string label = fmt::format("silu {}", name(src));
  emit(Activate{std::move(dst), std::move(src), Activation::kSilu}, std::move(label));
}
void Builder::zero(Access dst) {
  std::string label = fmt::format("zero {}", name(dst));
  emit(Memset{std::move(dst), 0.0f}, std::move(label));
}

}  // namespace neuronmm::tile
