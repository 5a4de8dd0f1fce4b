#include "trainium/nki/expressions.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainium/tile/accesses.h"
#include "trainium/tile/builder.h"

namespace neuronmm::nki {

using tile::Access;
using tile::Affine;
using tile::Loop;
using tile::LoopId;
using tile::Node;
using tile::Size;

namespace {

void collect_loops(const std::vector<Node>& body, std::vector<const Loop*>& loops) {
  for (const Node& node : body) {
    const auto* loop = std::get_if<Loop>(&node);
    if (!loop) continue;
    loops[static_cast<size_t>(loop->id)] = loop;
    collect_loops(loop->body, loops);
  }
}

// Calls on_access for every access under `body`, and on_loop for every loop.
template <typename OnAccess, typename OnLoop>
void visit(const std::vector<Node>& body, const OnAccess& on_access, const OnLoop& on_loop) {
  for (const Node& node : body) {
    if (const auto* loop = std::get_if<Loop>(&node)) {
      on_loop(*loop);
      visit(loop->body, on_access, on_loop);
    } else if (const auto* instruction = std::get_if<tile::Instruction>(&node)) {
      for (const tile::Operand& operand : tile::operands_of(instruction->operation)) {
        on_access(*operand.access);
      }
    }
  }
}

// Returns true if two sizes are equal at all loop values. Such sizes may share a variable in the
// source.
bool equal_sizes(const Size& a, const Size& b) {
  return a.max == b.max && a.limit == b.limit && a.origin == b.origin;
}

bool is_zero(const Affine& affine) { return affine.constant == 0 && affine.terms.empty(); }

// Returns what `loop` covers of its dimension in all iterations together.
Size covered_size(const Loop& loop) {
  return {.max = loop.max * loop.step, .limit = loop.limit, .origin = loop.origin};
}

// The two tile sizes of the hardware have names in every module. Other sizes are numbers.
std::string tile_text(int64_t value) {
  return value == kP ? "P" : value == kF ? "F" : std::to_string(value);
}

std::string step_text(const Loop& loop) {
  return loop.step_name.empty() ? tile_text(loop.step) : constant_name(loop.step_name);
}

// Returns the names that already have a meaning in the module, so that no loop, buffer or size may
// use them.
std::set<std::string> reserved_names(const tile::Program& program, const Description& description) {
  std::set<std::string> names = {"nki",      "nl", "nisa", "min",  "range",
                                 "ceil_div", "P",  "F",    "main", identifier(program.name)};
  for (const Dimension& dimension : description.dimensions) names.insert(dimension.name);
  for (const BlockSize& block : description.blocks) names.insert(constant_name(block.name));
  return names;
}

}  // namespace

Expressions::Expressions(const tile::Program& program, const Description& description)
    : program_(program),
      description_(description),
      dimensions_(program, description),
      names_(choose_names(program, reserved_names(program, description))),
      loops_(static_cast<size_t>(program.num_loops)) {
  collect_loops(program.body, loops_);
  for (const tile::Buffer& buffer : program.buffers) tiles_.emplace_back(buffer.shape.size());
  // If a dimension of a buffer counts tiles instead of elements, a loop variable alone (coefficient
  // 1) indexes it. The step of that loop is the number of elements per index. It turns "4" into "BK
  // // P" in a declaration.
  const auto collect_tiles = [this](const Access& access) {
    for (size_t d = 0; d < access.slices.size(); ++d) {
      if (!access.slices[d].index) continue;
      for (const auto& [id, coefficient] : access.slices[d].start.terms) {
        if (coefficient == 1) tiles_[static_cast<size_t>(access.buffer)][d] = loop(id).step;
      }
    }
  };
  visit(program.body, collect_tiles, [](const Loop&) {});
}

// The module's head defines only what is used, so every name goes through this function.
std::string Expressions::use(std::string_view name) {
  used_.emplace(name);
  return std::string(name);
}

// --- sizes and counts ---

std::string Expressions::tile_constant(int64_t value) { return use(tile_text(value)); }

std::string Expressions::step(const Loop& loop) { return use(step_text(loop)); }

// Returns `value` elements of a dimension as the step of a loop around, as the whole dimension, or
// as a number. The innermost loop comes first. If the dimension is unknown, a name is used only if
// no other name has the same value, because a wrong name would mislead.
std::string Expressions::extent(int64_t value, Label label) {
  std::set<std::string> candidates;
  for (size_t i = enclosing_.size(); i-- > 0;) {
    const Loop& loop = *enclosing_[i];
    if (loop.step != value || (label && dimensions_.label_of(loop.id) != label)) continue;
    candidates.insert(step_text(loop));
    if (label) break;
  }
  const bool no_loop = candidates.empty();
  for (size_t d = 0; no_loop && d < description_.dimensions.size(); ++d) {
    const Dimension& dimension = description_.dimensions[d];
    if (dimension.size == value && (!label || *label == d)) candidates.insert(dimension.name);
  }
  return candidates.size() == 1 ? use(*candidates.begin()) : tile_constant(value);
}

// Returns "BK // P" if the division has no remainder, and "ceil_div(N, F)" if it has one.
std::string Expressions::quotient(int64_t a, const std::string& a_text, int64_t b,
                                  const std::string& b_text) {
  if (b == 1) return a_text;
  if (a % b == 0) return fmt::format("{} // {}", a_text, b_text);
  return fmt::format("{}({}, {})", use("ceil_div"), a_text, b_text);
}

// Returns how many tiles of `tile` elements cover a block or a whole dimension. The result is
// `count` written with names.
std::string Expressions::tile_count(int64_t count, Label label, int64_t tile,
                                    const std::string& tile_text) {
  if (count == 1 || tile == 0 || !label) return std::to_string(count);
  for (size_t i = enclosing_.size(); i-- > 0;) {
    const Loop& loop = *enclosing_[i];
    if (dimensions_.label_of(loop.id) != label || tile::ceil_div(loop.step, tile) != count) {
      continue;
    }
    return quotient(loop.step, step(loop), tile, tile_text);
  }
  const Dimension& whole = description_.dimensions[*label];
  if (tile::ceil_div(whole.size, tile) != count) return std::to_string(count);
  return quotient(whole.size, use(whole.name), tile, tile_text);
}

// A loop with a limit covers what is left of its dimension, which differs between iterations. Other
// loops have a trip count that names can express.
std::string Expressions::trips(const Loop& loop) {
  const Label label = dimensions_.label_of(loop.id);
  if (!loop.limit) return tile_count(loop.max, label, loop.step, step(loop));
  return fmt::format("{}({}, {})", use("ceil_div"), size(covered_size(loop), label), step(loop));
}

// A ragged size is an expression with min(), or the variable in scope that holds it.
std::string Expressions::size(const Size& size, Label label) {
  if (!size.limit) return extent(size.max, label);
  for (size_t i = sizes_.size(); i-- > 0;) {
    if (equal_sizes(sizes_[i].size, size)) return sizes_[i].name;
  }
  return fmt::format("min({}, {})", extent(size.max, label), remaining_size(size));
}

// Returns what is left of the dimension from the tile's origin on: limit - origin. If the tile lies
// in a tile of an outer loop, the size of the outer tile gives a shorter expression ("m_size - mt *
// P") without the whole dimension. This is correct only if the tile cannot reach beyond the outer
// one: the inner origin must grow with each loop, and the last inner tile must end inside.
std::string Expressions::remaining_size(const Size& size) {
  for (size_t i = sizes_.size(); i-- > 0;) {
    const Size& outer = sizes_[i].size;
    if (outer.limit != size.limit) continue;
    const Affine inside = size.origin - outer.origin;
    // The end of the last tile, which must not leave the outer one.
    int64_t reach = inside.constant + size.max;
    bool forward = inside.constant >= 0;
    for (const auto& [id, coefficient] : inside.terms) {
      reach += coefficient * (loop(id).max - 1);
      forward = forward && coefficient > 0;
    }
    if (forward && reach <= outer.max) return sizes_[i].name + terms(inside, " - ");
  }
  const Label label = dimensions_.label_of(size.origin.terms.back().first);
  return extent(*size.limit, label) + terms(size.origin, " - ");
}

// --- positions ---

// Returns " + m * BM + kt * P": every term after a sign. A coefficient is written as a step if it
// equals the step of its loop. If an index counts tiles, the coefficient of an outer loop is the
// number of tiles in its block: "m * (BM // P)".
std::string Expressions::terms(const Affine& affine, std::string_view sign) {
  std::string text;
  int64_t tile = kP;  // The tile size of the term that counts tiles.
  for (const auto& [id, coefficient] : affine.terms) {
    if (coefficient == 1) tile = loop(id).step;
  }
  for (const auto& [id, coefficient] : affine.terms) {
    const Loop& term_loop = loop(id);
    text += fmt::format("{}{}", sign, name(id));
    if (coefficient == 1) continue;
    if (coefficient == term_loop.step) {
      text += fmt::format(" * {}", step(term_loop));
    } else if (coefficient * tile == term_loop.step) {
      text += fmt::format(" * ({} // {})", step(term_loop), tile_constant(tile));
    } else {
      text += fmt::format(" * {}", coefficient);
    }
  }
  if (affine.constant != 0) text += fmt::format("{}{}", sign, affine.constant);
  return text;
}

// Returns the expression without the sign of its first term: " + m * BM" becomes "m * BM".
std::string Expressions::affine(const Affine& affine) {
  const std::string text = terms(affine, " + ");
  return text.empty() ? "0" : text.substr(3);
}

// Returns the shortest form that NKI accepts: an index, ":" for a whole dimension, "0:size" from
// its beginning, and otherwise nl.ds(start, size).
std::string Expressions::slice(const Access& access, size_t dimension) {
  const tile::Slice& slice = access.slices[dimension];
  if (slice.index) return affine(slice.start);
  const bool from_start = is_zero(slice.start);
  const int64_t whole = program_.buffer(access.buffer).shape[dimension];
  if (from_start && !slice.size.limit && slice.size.max == whole) return ":";
  const std::string elements = size(slice.size, dimensions_.label_of(access.buffer, dimension));
  if (from_start) return "0:" + elements;
  return fmt::format("nl.ds({}, {})", affine(slice.start), elements);
}

// Returns the slices of the dimensions from `first` on in brackets, or "" if they cover all of
// them.
std::string Expressions::slices(const Access& access, size_t first) {
  std::string slices;
  bool whole = true;
  for (size_t d = first; d < access.slices.size(); ++d) {
    const std::string text = slice(access, d);
    whole = whole && text == ":";
    slices += (d == first ? "" : ", ") + text;
  }
  return whole ? "" : fmt::format("[{}]", slices);
}

std::string Expressions::access(const Access& access) {
  const bool legacy = description_.release.dialect == Dialect::kNeuronxcc;
  if (legacy && program_.buffer(access.buffer).row_tiles) return row_tiles(access);
  const std::string& buffer = names_.buffers[static_cast<size_t>(access.buffer)];
  if (access.index.empty()) return buffer + slices(access, 0);
  const RegisterVariable* const found = find_register(this->access(access.index.front()));
  NMM_CHECK(found != nullptr);
  return fmt::format("{}.select(0, {}){}", buffer, found->name, slices(access, 1));
}

const Expressions::RegisterVariable* Expressions::find_register(const std::string& index) const {
  const auto found = std::ranges::find(registers_, index, &RegisterVariable::index);
  return found == registers_.end() ? nullptr : &*found;
}

// The register is named after its buffer: "experts_register". It is known until the end of the
// iteration that loads it.
std::string Expressions::load_register(const Access& index) {
  const std::string element = access(index);
  if (find_register(element) != nullptr) return "";
  const std::string wanted = names_.buffers[static_cast<size_t>(index.buffer)] + "_register";
  const auto taken = [this](const std::string& name) {
    return names_.taken.contains(name) ||
           std::ranges::find(registers_, name, &RegisterVariable::name) != registers_.end();
  };
  std::string name = wanted;
  for (int number = 2; taken(name); ++number) name = wanted + std::to_string(number);
  registers_.push_back({element, name});
  return fmt::format("{} = nisa.register_alloc({})", name, element);
}

std::string Expressions::access_shape(const Access& access) {
  std::string sizes;
  for (size_t d = 0; d < access.slices.size(); ++d) {
    const tile::Slice& slice = access.slices[d];
    if (slice.index) continue;
    const bool partitions = d == 0 && !slice.size.limit && slice.size.max == kP;
    sizes += sizes.empty() ? "" : ", ";
    sizes +=
        partitions ? tile_constant(kP) : size(slice.size, dimensions_.label_of(access.buffer, d));
  }
  return fmt::format("({})", sizes);
}

// PSUM tiles and partitions have the hardware's sizes, whatever dimension of the problem they hold.
// Other dimensions are counts of tiles or elements of the problem.
std::vector<std::string> Expressions::shape_sizes(tile::BufferId id) {
  const tile::Buffer& buffer = program_.buffer(id);
  const bool on_chip = buffer.memory != tile::Memory::kHbm;
  std::vector<std::string> all;
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    const Label label = dimensions_.label_of(id, d);
    const int64_t tile = tiles_[static_cast<size_t>(id)][d];
    const bool constant = buffer.memory == tile::Memory::kPsum || (on_chip && d == 0);
    all.push_back(constant   ? tile_constant(buffer.shape[d])
                  : tile > 0 ? tile_count(buffer.shape[d], label, tile, tile_constant(tile))
                             : extent(buffer.shape[d], label));
  }
  return all;
}

std::string Expressions::shape(tile::BufferId id) {
  const std::vector<std::string> all = shape_sizes(id);
  return fmt::format("({}{})", fmt::join(all, ", "), all.size() == 1 ? "," : "");
}

// Returns how the shape of an input becomes that of a view. Tiles of rows are split off and then
// swapped with their rows. Rows that fill no tile are left out.
std::string Expressions::view(tile::BufferId id) {
  const tile::Buffer& buffer = program_.buffer(id);
  const std::string& input = names_.buffers[static_cast<size_t>(buffer.view_of)];
  if (!buffer.row_tiles) return fmt::format("{}.reshape({})", input, shape(id));
  const std::vector<std::string> all = shape_sizes(id);
  if (buffer.matrix_rows > 0) return matrix_row_tiles(id);
  const int64_t rows = buffer.shape[0] * buffer.shape[1];
  const bool whole = rows == program_.buffer(buffer.view_of).shape[0];
  return fmt::format("{}{}.reshape(({}, {}, {})).permute((1, 0, 2))", input,
                     whole ? "" : fmt::format("[0:{}, :]", rows), all[1], all[0], all[2]);
}

// Each matrix loses the rows that fill no tile. Its others are split into tiles, which are then
// swapped with their rows.
std::string Expressions::matrix_row_tiles(tile::BufferId id) {
  const tile::Buffer& buffer = program_.buffer(id);
  const std::vector<std::string> all = shape_sizes(id);
  const int64_t rows = buffer.shape[1] * buffer.shape[2];
  std::string text = names_.buffers[static_cast<size_t>(buffer.view_of)];
  if (rows != buffer.matrix_rows) {
    text +=
        fmt::format(".reshape(({}, {}, {}))[:, 0:{}, :]", all[0], buffer.matrix_rows, all[3], rows);
  }
  return fmt::format("{}.reshape(({}, {}, {}, {})).permute((0, 2, 1, 3))", text, all[0], all[2],
                     all[1], all[3]);
}

// The legacy dialect cannot permute dimensions. There, index grids number the rows of the tiles,
// with one axis for each dimension of the view.
std::string Expressions::row_tiles(const Access& access) {
  const tile::Buffer& view = program_.buffer(access.buffer);
  const auto grid = [&](size_t d, std::string_view axes) {
    const tile::Slice& slice = access.slices[d];
    const std::string count = d == 0 ? tile_constant(slice.size.max)
                                     : size(slice.size, dimensions_.label_of(access.buffer, d));
    return fmt::format("nl.arange({})[{}]{}", count, axes, terms(slice.start, " + "));
  };
  return fmt::format("{}[({}) * {} + {}, {}]", names_.buffers[static_cast<size_t>(view.view_of)],
                     grid(1, "None, :, None"), tile_constant(view.shape[0]),
                     grid(0, ":, None, None"), grid(2, "None, None, :"));
}

// Returns the accumulate flag of nc_matmul, which is false if all loops along the contraction are
// at 0. Without such loops every matmul begins a new sum.
std::string Expressions::accumulate_flag(const std::vector<LoopId>& loops) {
  if (loops.empty()) return "False";
  std::string text;
  for (const LoopId id : loops) {
    text += fmt::format("{}{} > 0", text.empty() ? "" : " or ", name(id));
  }
  return fmt::format("({})", text);
}

// --- scopes ---

// Gives a ragged size a variable named after its loop: "m_size". The name gets a number if it is
// taken.
std::string Expressions::declare(const Size& size, const Loop& innermost) {
  const std::string wanted = name(innermost.id) + "_size";
  const auto taken = [this](const std::string& name) {
    return names_.taken.contains(name) ||
           std::any_of(sizes_.begin(), sizes_.end(),
                       [&name](const SizeVariable& variable) { return variable.name == name; });
  };
  std::string name = wanted;
  for (int number = 2; taken(name); ++number) name = wanted + std::to_string(number);
  std::string assignment =
      fmt::format("{} = {}", name, this->size(size, dimensions_.label_of(innermost.id)));
  sizes_.push_back({size, std::move(name)});
  return assignment;
}

// A size is declared in the innermost loop that its origin depends on. The last term belongs to
// this loop, because terms are sorted by loop. The size is computed there once for all uses.
std::vector<std::string> Expressions::enter(const Loop& loop) {
  enclosing_.push_back(&loop);
  sizes_before_.push_back(sizes_.size());
  registers_before_.push_back(registers_.size());
  std::vector<std::string> assignments;
  const auto declare_if_new = [&](const Size& size) {
    if (!size.limit || size.origin.terms.empty() || size.origin.terms.back().first != loop.id)
      return;
    for (size_t i = sizes_before_.back(); i < sizes_.size(); ++i) {
      if (equal_sizes(sizes_[i].size, size)) return;
    }
    assignments.push_back(declare(size, loop));
  };
  visit(
      loop.body,
      [&](const Access& access) {
        for (const tile::Slice& slice : access.slices) declare_if_new(slice.size);
      },
      [&](const Loop& inner) { declare_if_new(covered_size(inner)); });
  return assignments;
}

void Expressions::leave() {
  sizes_.resize(sizes_before_.back());
  sizes_before_.pop_back();
  registers_.resize(registers_before_.back());
  registers_before_.pop_back();
  enclosing_.pop_back();
}

}  // namespace neuronmm::nki
