// This file implements check_structure of checker.h. All other code that reads programs relies on
// it: numbers of buffers and loops are in range, loops enclose the instructions that use their
// variables, and on-chip buffers are allocated before they are used.

#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trainium/tile/accesses.h"
#include "trainium/tile/checker.h"

namespace neuronmm::tile {
namespace {

// A buffer holds a rectangle of bf16 or fp32 elements, or of int32 numbers that loads are indexed
// by, because no instruction handles anything else.
Status check_buffer(const Buffer& buffer) {
  const bool on_chip = buffer.memory != Memory::kHbm;
  if (buffer.shape.empty() || buffer.shape.size() > kMaxDimensions) {
    return fail("buffer {}: expected 1 to {} dimensions, found {}", buffer.name, kMaxDimensions,
                buffer.shape.size());
  }
  for (const int64_t size : buffer.shape) {
    if (size < 1) {
      return fail("buffer {}: expected positive sizes, found {}", buffer.name,
                  shape_string(buffer.shape));
    }
  }
  if (buffer.dtype != DType::kBF16 && buffer.dtype != DType::kF32 && buffer.dtype != DType::kI32) {
    return fail("buffer {}: expected BF16, F32 or I32, found {}", buffer.name,
                dtype_name(buffer.dtype));
  }
  if (buffer.row_tiles && !buffer.is_view()) {
    return fail("buffer {}: expected a view, because it has row tiles", buffer.name);
  }
  if (on_chip && buffer.copies < 1) {
    return fail("buffer {}: expected at least one copy, found {}", buffer.name, buffer.copies);
  }
  return {};
}

int64_t elements_of(const Buffer& buffer) {
  int64_t elements = 1;
  for (const int64_t size : buffer.shape) elements *= size;
  return elements;
}

// Returns true if `input` is a matrix and the view has as many row tiles as `input`, or each of its
// matrices, has whole tiles.
bool has_row_tiles(const Buffer& input, const Buffer& view) {
  if (view.shape.size() == 4) {
    const int64_t rows = view.matrix_rows;
    return input.shape.size() == 2 && rows > 0 && view.shape[0] * rows == input.shape[0] &&
           view.shape[2] == rows / view.shape[1] && view.shape[3] == input.shape[1];
  }
  return input.shape.size() == 2 && view.shape.size() == 3 &&
         view.shape[1] == input.shape[0] / view.shape[0] && view.shape[2] == input.shape[1];
}

// A view shows the elements of one input and has none of its own.
Status check_view(const Program& program, const Buffer& view) {
  const auto base = static_cast<size_t>(view.view_of);
  if (base >= program.buffers.size() || program.buffers[base].role != HbmRole::kInput) {
    return fail("buffer {}: expected a view of an input, found one of buffer {}", view.name,
                view.view_of);
  }
  const Buffer& input = program.buffers[base];
  if (view.row_tiles && !has_row_tiles(input, view)) {
    return fail(
        "buffer {}: expected row tiles [rows, tiles, columns] of the matrix {} {}, found {}",
        view.name, input.name, shape_string(input.shape), shape_string(view.shape));
  }
  const bool fits = view.row_tiles || elements_of(view) == elements_of(input);
  if (view.memory != Memory::kHbm || view.role != HbmRole::kNone || view.dtype != input.dtype ||
      !fits) {
    return fail("buffer {}: expected a view of {} elements of {} like {}, found {} {}", view.name,
                elements_of(input), dtype_name(input.dtype), input.name, dtype_name(view.dtype),
                shape_string(view.shape));
  }
  return {};
}

class StructureChecker {
 public:
  explicit StructureChecker(const Program& program) : program_(program) {}

  // Buffers come first, because the walk over the body relies on them.
  Status run() {
    for (const Buffer& buffer : program_.buffers) NMM_TRY(check_buffer(buffer));
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.is_view()) NMM_TRY(check_view(program_, buffer));
    }
    return body(program_.body);
  }

 private:
  Status body(const std::vector<Node>& nodes) {
    // A buffer may be used in the body that allocates it and in the loops inside that body, but not
    // after it.
    const std::set<BufferId> outer = allocated_;
    for (const Node& node : nodes) {
      if (const auto* inner = std::get_if<Loop>(&node)) {
        NMM_TRY(loop(*inner));
      } else if (const auto* allocate = std::get_if<Allocate>(&node)) {
        NMM_TRY(buffer_id(allocate->buffer, "allocate"));
        if (program_.buffer(allocate->buffer).memory == Memory::kHbm) {
          return fail("allocate {}: only SBUF and PSUM buffers are allocated",
                      program_.buffer(allocate->buffer).name);
        }
        allocated_.insert(allocate->buffer);
      } else {
        NMM_TRY(instruction(std::get<Instruction>(node)));
      }
    }
    allocated_ = outer;
    return {};
  }

  Status loop(const Loop& loop) {
    const bool valid = loop.id >= 0 && loop.id < program_.num_loops;
    // A loop variable belongs to one loop. Otherwise its value would depend on which loop ran last.
    if (!valid || !seen_.insert(loop.id).second) {
      return fail("loop {}: expected an id of its own below {}, found {}", loop.name,
                  program_.num_loops, loop.id);
    }
    if (loop.max < 1 || loop.step < 1) {
      return fail("loop {}: expected a positive count and step, found {} and {}", loop.name,
                  loop.max, loop.step);
    }
    NMM_TRY(affine(loop.origin, fmt::format("loop {}", loop.name)));
    open_.insert(loop.id);
    NMM_TRY(body(loop.body));
    open_.erase(loop.id);
    return {};
  }

  // Checks every operand and, for a sum, the loops that it runs over. Only loops around the
  // instruction can decide where a sum begins.
  Status instruction(const Instruction& instruction) {
    const auto* load = std::get_if<DmaCopy>(&instruction.operation);
    for (const Operand& operand : operands_of(instruction.operation)) {
      NMM_TRY(access(*operand.access, instruction.label));
      if (operand.access->index.empty() || (load && operand.access == &load->src)) continue;
      return fail(
          "\"{}\": the place of {} in {} depends on an index, which only the source of a load "
          "may",
          instruction.label, operand.role, program_.buffer(operand.access->buffer).name);
    }
    if (const auto* matmul = std::get_if<NcMatmul>(&instruction.operation)) {
      if (matmul->always_adds && !matmul->sum_loops.empty()) {
        return fail("\"{}\": it always adds, and sums over a loop as well", instruction.label);
      }
      for (const LoopId id : matmul->sum_loops) {
        if (!open_.contains(id)) {
          return fail("\"{}\": it sums over loop {}, which does not enclose it", instruction.label,
                      id);
        }
      }
    }
    return {};
  }

  Status access(const Access& access, const std::string& label) {
    NMM_TRY(buffer_id(access.buffer, label));
    const Buffer& buffer = program_.buffer(access.buffer);
    if (access.slices.size() != buffer.shape.size()) {
      return fail("\"{}\": expected {} slices of {}, found {}", label, buffer.shape.size(),
                  buffer.name, access.slices.size());
    }
    if (!access.index.empty()) NMM_TRY(index(access, label));
    for (const Slice& slice : access.slices) {
      NMM_TRY(affine(slice.start, label));
      NMM_TRY(affine(slice.size.origin, label));
    }
    if (buffer.memory != Memory::kHbm && !allocated_.contains(access.buffer)) {
      return fail("\"{}\": {} is not allocated here", label, buffer.name);
    }
    return {};
  }

  // Only the first dimension has an index, which has none itself. Loads alone may have one, so that
  // operands_of() lists every index.
  Status index(const Access& access, const std::string& label) {
    const bool valid = access.index.size() == 1 && access.index.front().index.empty() &&
                       access.slices.front().index;
    if (valid) return this->access(access.index.front(), label);
    return fail("\"{}\": expected one index for a single element of dimension 0 of {}", label,
                program_.buffer(access.buffer).name);
  }

  Status buffer_id(BufferId id, const std::string& where) const {
    if (id >= 0 && static_cast<size_t>(id) < program_.buffers.size()) return {};
    return fail("\"{}\": expected a buffer number below {}, found {}", where,
                program_.buffers.size(), id);
  }

  // A position may depend only on the loops around it.
  Status affine(const Affine& affine, const std::string& where) const {
    for (const auto& [id, coefficient] : affine.terms) {
      if (!open_.contains(id)) return fail("\"{}\": loop {} does not enclose it", where, id);
    }
    return {};
  }

  const Program& program_;
  std::set<LoopId> seen_, open_;
  std::set<BufferId> allocated_;
};

}  // namespace

Status check_structure(const Program& program) { return StructureChecker(program).run(); }

}  // namespace neuronmm::tile
