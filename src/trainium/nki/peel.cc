#include "trainium/nki/peel.h"

#include <algorithm>

#include "trainium/tile/accesses.h"
#include "trainium/tile/builder.h"

namespace neuronmm::nki {

using tile::Affine;
using tile::BufferId;
using tile::Loop;
using tile::LoopId;
using tile::Node;
using tile::Program;
using tile::Size;

namespace {

// Calls visit(size) for each size at which the slices and the loops under `body` are cut off.
template <typename Visit>
void for_each_size(const std::vector<Node>& body, const Visit& visit) {
  for (const Node& node : body) {
    if (const auto* loop = std::get_if<Loop>(&node)) {
      visit(Size{.max = loop->max * loop->step, .limit = loop->limit, .origin = loop->origin});
      for_each_size(loop->body, visit);
    } else if (const auto* instruction = std::get_if<tile::Instruction>(&node)) {
      for (const tile::Operand& operand : tile::operands_of(instruction->operation)) {
        for (const tile::Slice& slice : operand.access->slices) visit(slice.size);
      }
    }
  }
}

void largest_trip_counts(const std::vector<Node>& body, std::vector<int64_t>& trip_counts) {
  for (const Node& node : body) {
    const auto* loop = std::get_if<Loop>(&node);
    if (!loop) continue;
    trip_counts[static_cast<size_t>(loop->id)] = loop->max;
    largest_trip_counts(loop->body, trip_counts);
  }
}

class LoopPeeler {
 public:
  explicit LoopPeeler(const Program& program)
      : program_(program),
        trip_counts_(static_cast<size_t>(program.num_loops), 1),
        value_(static_cast<size_t>(program.num_loops)) {
    largest_trip_counts(program.body, trip_counts_);
  }

  Result<Program> run() {
    Program peeled{.name = program_.name, .buffers = program_.buffers, .body = {}, .num_loops = 0};
    NMM_TRY(body(program_.body, peeled.body));
    peeled.num_loops = static_cast<int32_t>(last_.size());
    return peeled;
  }

 private:
  // Returns the expression in the loops of the result.
  Affine substitute(const Affine& affine) const {
    Affine sum = affine.constant;
    for (const auto& [id, coefficient] : affine.terms) {
      sum = sum + value_[static_cast<size_t>(id)] * coefficient;
    }
    return sum;
  }
  int64_t least(const Affine& affine) const {
    int64_t value = affine.constant;
    for (const auto& [id, coefficient] : affine.terms) {
      value += std::min<int64_t>(0, coefficient * last_[static_cast<size_t>(id)]);
    }
    return value;
  }
  int64_t most(const Affine& affine) const {
    int64_t value = affine.constant;
    for (const auto& [id, coefficient] : affine.terms) {
      value += std::max<int64_t>(0, coefficient * last_[static_cast<size_t>(id)]);
    }
    return value;
  }

  // Returns a size that is equal in all iterations. Fails if it is not.
  Result<int64_t> constant(const Size& size, int64_t step) const {
    if (!size.limit) return size.max;
    const Affine origin = substitute(size.origin);
    const auto tiles = [&](int64_t at) {
      const int64_t left = std::max<int64_t>(0, *size.limit - at);
      return std::min(size.max, tile::ceil_div(left, step));
    };
    if (tiles(least(origin)) != tiles(most(origin))) {
      return fail("{}: a size depends on a loop in a way that the legacy dialect cannot say",
                  program_.name);
    }
    return tiles(most(origin));
  }

  // Returns in how many of the first iterations everything that the loop's body may cut off is
  // whole.
  int64_t whole_iterations(const Loop& loop, int64_t trips) const {
    int64_t whole = trips;
    for_each_size(loop.body, [&](const Size& size) {
      if (!size.limit) return;
      int64_t coefficient = 0, end = size.origin.constant + size.max;
      for (const auto& [id, factor] : size.origin.terms) {
        const auto i = static_cast<size_t>(id);
        if (id == loop.id) {
          coefficient = factor;
        } else if (enclosing_[i]) {
          end += most(value_[i] * factor);
        } else {
          end += factor * (trip_counts_[i] - 1);
        }
      }
      if (coefficient <= 0) return;
      const int64_t remaining = *size.limit - end;
      whole = std::min(whole, remaining < 0 ? 0 : remaining / coefficient + 1);
    });
    return whole;
  }

  Status body(const std::vector<Node>& nodes, std::vector<Node>& out) {
    for (const Node& node : nodes) {
      if (const auto* inner = std::get_if<Loop>(&node)) {
        NMM_TRY(loop(*inner, out));
      } else if (const auto* instruction = std::get_if<tile::Instruction>(&node)) {
        NMM_TRY(this->instruction(*instruction, out));
      } else {
        out.push_back(node);
      }
    }
    return {};
  }

  Status loop(const Loop& loop, std::vector<Node>& out) {
    const auto id = static_cast<size_t>(loop.id);
    const Size covered{.max = loop.max, .limit = loop.limit, .origin = loop.origin};
    NMM_ASSIGN(const int64_t trips, constant(covered, loop.step));
    const int64_t whole = loop.cores ? trips : whole_iterations(loop, trips);
    enclosing_[id] = true;
    int64_t done = 0;
    if (whole > 1 || loop.cores) {
      Loop main = loop;
      main.id = static_cast<LoopId>(last_.size());
      main.max = done = whole;
      main.limit.reset();
      main.origin = substitute(loop.origin);
      main.body.clear();
      last_.push_back(whole - 1);
      value_[id] = 0;
      value_[id].terms = {{main.id, 1}};
      NMM_TRY(body(loop.body, main.body));
      out.emplace_back(std::move(main));
    }
    for (; done < trips; ++done) {
      value_[id] = done;
      NMM_TRY(body(loop.body, out));
    }
    enclosing_[id] = false;
    return {};
  }

  Status instruction(const tile::Instruction& given, std::vector<Node>& out) {
    tile::Instruction instruction = given;
    Status status;
    bool empty = false;
    tile::rewrite_accesses(instruction.operation, [&](tile::Access& access) {
      for (tile::Slice& slice : access.slices) {
        const auto size = constant(slice.size, 1);
        if (!size.ok()) {
          status = size.error();
          return;
        }
        empty = empty || *size == 0;
        slice = {.start = substitute(slice.start), .size = {.max = *size}, .index = slice.index};
      }
    });
    if (!status.ok()) return status.error();
    if (auto* matmul = std::get_if<tile::NcMatmul>(&instruction.operation)) {
      matmul->sum_loops.clear();
    }
    if (!empty) out.emplace_back(std::move(instruction));
    return {};
  }

  const Program& program_;
  std::vector<int64_t> trip_counts_;  // The largest trip counts of the program's loops.
  // The variables of the program's loops, in terms of the result's loops.
  std::vector<Affine> value_;
  std::vector<int64_t> last_;  // The last values of the result's loops.
  std::vector<bool> enclosing_ = std::vector<bool>(trip_counts_.size());
};

// Checks the loops between the allocation of a buffer and a matmul into it. Each of them must run
// along the contraction or to another part of the buffer.
class SumCheck {
 public:
  explicit SumCheck(const Program& program)
      : program_(program), depth_(program.buffers.size()), writer_(program.buffers.size()) {}

  Status body(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (const auto* loop = std::get_if<Loop>(&node)) {
        enclosing_.push_back(loop->id);
        NMM_TRY(body(loop->body));
        enclosing_.pop_back();
      } else if (const auto* allocate = std::get_if<tile::Allocate>(&node)) {
        depth_[static_cast<size_t>(allocate->buffer)] = enclosing_.size();
        writer_[static_cast<size_t>(allocate->buffer)] = nullptr;
      } else if (const auto* matmul =
                     std::get_if<tile::NcMatmul>(&std::get<tile::Instruction>(node).operation)) {
        NMM_TRY(sum(*matmul));
      }
    }
    return {};
  }

 private:
  Status sum(const tile::NcMatmul& matmul) {
    const auto buffer = static_cast<size_t>(matmul.dst.buffer);
    bool is_only_sum = writer_[buffer] == nullptr;
    writer_[buffer] = &matmul;
    for (size_t i = depth_[buffer]; i < enclosing_.size(); ++i) {
      const LoopId id = enclosing_[i];
      bool allowed = std::ranges::find(matmul.sum_loops, id) != matmul.sum_loops.end();
      for (const tile::Slice& slice : matmul.dst.slices) {
        for (const auto& [term, coefficient] : slice.start.terms) allowed = allowed || term == id;
      }
      is_only_sum = is_only_sum && allowed;
    }
    if (is_only_sum || matmul.always_adds) return {};
    return fail(
        "{}: {} holds more than one sum between its allocations, which the legacy dialect "
        "cannot say",
        program_.name, program_.buffer(matmul.dst.buffer).name);
  }

  const Program& program_;
  std::vector<LoopId> enclosing_;
  std::vector<size_t> depth_;  // The number of loops around each buffer's allocation.
  // The matmul that has written to each buffer since its allocation.
  std::vector<const tile::NcMatmul*> writer_;
};

}  // namespace

Result<Program> peel_ragged_loops(const Program& program) { return LoopPeeler(program).run(); }

Status check_sums(const Program& program) { return SumCheck(program).body(program.body); }

}  // namespace neuronmm::nki
