#include "trainium/trace/vectorize.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trainium/trace/loop_dependences.h"
#include "trainium/trace/wider_tensors.h"

namespace neuronmm::trace {

namespace {

using tile::Memory;

constexpr size_t kMostAxes = 5;  // The partitions' axis and four along the free dimension.
// The most memory for the tiles of all iterations that splitting the loop keeps and that are not
// merged. The limits are half of PSUM and an eighth of SBUF. Assumed.
constexpr int64_t kMostKeptBanks = 4, kMostKeptSbufBytes = 24 << 10;
constexpr int64_t kPsumBankBytes = 2048;

// Operations that work elementwise or along an inner axis. One more outer axis does not change what
// they do.
constexpr std::array<std::string_view, 10> kMergeable = {
    "tensor_tensor", "tensor_scalar",          "scalar_tensor_tensor", "activation", "tensor_copy",
    "tensor_reduce", "tensor_copy_predicated", "reciprocal",           "memset",     "nc_matmul"};

// Operands that an instruction reads once for all elements. They must be the same in every
// iteration.
constexpr std::array<std::string_view, 5> kInvariant = {"stationary", "bias", "scale", "scalar0",
                                                        "scalar1"};

template <size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// How an operand moves from one iteration to the next.
struct Step {
  std::optional<size_t> slot;  // The slot, if each iteration has its own tile.
  int64_t elements = 0;        // The distance in one tensor.
};

// The tiles that the iterations make at one place of the body.
struct Slot {
  std::vector<uint32_t> instances;
  uint32_t first = 0, last = 0;  // The statements that use it.
  bool merged = false;
};

class Vectorizer {
 public:
  Vectorizer(InstructionList& list, const Contents& contents, const VectorizeLimits& limits)
      : list_(list),
        contents_(contents),
        limits_(limits),
        dependences_(list, contents),
        wider_(list, contents) {}

  int64_t run() {
    std::vector<ListedInstruction> out;
    out.reserve(list_.instructions.size());
    uint32_t done = 0;
    for (const ParallelLoop& loop : list_.loops) {
      append(done, loop.begins[0], out);
      transform(loop, out);
      done = loop.end;
    }
    append(done, static_cast<uint32_t>(list_.instructions.size()), out);
    const auto num_removed = static_cast<int64_t>(list_.instructions.size() - out.size());
    list_.instructions = std::move(out);
    return num_removed;
  }

 private:
  void append(uint32_t begin, uint32_t end, std::vector<ListedInstruction>& out) {
    for (uint32_t at = begin; at < end; ++at) {
      wider_.relocate(list_.operands_of(list_.instructions[at]));
      out.push_back(list_.instructions[at]);
    }
  }

  const ListedInstruction& at(uint32_t iteration, uint32_t statement) const {
    return list_.instructions[loop_->begins[iteration] + statement];
  }
  uint32_t iterations() const { return static_cast<uint32_t>(loop_->iterations()); }

  // Merges what it can, or appends the loop as it is.
  void transform(const ParallelLoop& loop, std::vector<ListedInstruction>& out) {
    loop_ = &loop;
    const bool splits = same_bodies() && plan() && split_fits();
    if (!splits) return append(loop.begins[0], loop.end, out);
    for (Slot& slot : slots_) {
      if (slot.merged) wider_.widen(slot.instances);
    }
    uint32_t s = 0;
    while (s < statements_) {
      if (merged_[s]) {
        out.push_back(merge(s++));
        continue;
      }
      uint32_t end = s;
      while (end < statements_ && !merged_[end]) ++end;
      for (uint32_t i = 0; i < iterations(); ++i) {
        append(loop.begins[i] + s, loop.begins[i] + end, out);
      }
      s = end;
    }
  }

  // Returns whether all iterations run the same calls of the same lines, with as many operands. A
  // line may leave out an optional operand in some iterations.
  bool same_bodies() {
    const uint32_t n = loop_->begins[1] - loop_->begins[0];
    if (n == 0) return false;
    for (uint32_t i = 0; i < iterations(); ++i) {
      const uint32_t end = i + 1 < iterations() ? loop_->begins[i + 1] : loop_->end;
      if (end - loop_->begins[i] != n) return false;
      for (uint32_t s = 0; s < n; ++s) {
        if (at(i, s).source != at(0, s).source || at(i, s).num_operands != at(0, s).num_operands ||
            list_.operation(at(i, s)).name != list_.operation(at(0, s)).name) {
          return false;
        }
      }
    }
    statements_ = n;
    return true;
  }

  // Chooses the statements to merge. Returns false if there are none.
  bool plan() {
    slots_.clear();
    slot_of_.clear();
    merged_.assign(statements_, false);
    steps_.assign(statements_, {});
    bool any = false;
    for (uint32_t s = 0; s < statements_; ++s) {
      merged_[s] = can_merge(s);
      any = any || merged_[s];
    }
    if (!any) return false;
    const LoopDependences dependences = dependences_.find(*loop_, statements_);
    if (dependences.backward) return false;
    any = false;
    for (uint32_t s = 0; s < statements_; ++s) {
      merged_[s] = merged_[s] && !dependences.loop_carried[s];
      if (!merged_[s]) continue;
      any = true;
      for (const Step& step : steps_[s]) {
        if (step.slot) slots_[*step.slot].merged = true;
      }
    }
    return any;
  }

  bool can_merge(uint32_t s) {
    const Operation& operation = list_.operation(at(0, s));
    const size_t operands = operation.operands.size();
    bool possible = is_one_of(kMergeable, operation.name) && !operation.reduces() &&
                    !operation.dynamic && !operation.transpose && !operation.tile_position;
    for (uint32_t i = 1; i < iterations(); ++i) {
      possible = possible && at(i, s).operation == at(0, s).operation;
    }
    // The loop visits every operand, so that the slots know all of their users.
    for (size_t o = 0; o < operands; ++o) {
      const auto step = step_of(s, o);
      if (!step) {
        possible = false;
        steps_[s].push_back({});
        continue;
      }
      steps_[s].push_back(*step);
      possible = possible && fits(s, o, *step);
    }
    return possible;
  }

  OperandRecord operand(uint32_t iteration, uint32_t s, size_t o) {
    return wider_.relocated(list_.operands_of(at(iteration, s))[o]);
  }

  std::optional<Step> step_of(uint32_t s, size_t o) {
    const OperandRecord first = operand(0, s, o), second = operand(1, s, o);
    if (list_.operation(at(0, s)).has_run_time_index[o]) return std::nullopt;
    if (first.instance != second.instance) return slot_of(s, o);
    const int64_t delta = second.offset - first.offset;
    for (uint32_t i = 1; i < iterations(); ++i) {
      const OperandRecord next = operand(i, s, o);
      if (next.instance != first.instance || next.pattern != first.pattern ||
          next.offset != first.offset + delta * i) {
        return std::nullopt;
      }
    }
    return Step{.slot = {}, .elements = delta};
  }

  // Returns the slot of an operand for which each iteration makes a tile of its own.
  std::optional<Step> slot_of(uint32_t s, size_t o) {
    std::vector<uint32_t> instances;
    const OperandRecord first = operand(0, s, o);
    bool same_slice = true;
    for (uint32_t i = 0; i < iterations(); ++i) {
      const OperandRecord next = operand(i, s, o);
      same_slice = same_slice && next.pattern == first.pattern && next.offset == first.offset;
      if (!made_in(next.instance, i) || !wider_.same_kind(next.instance, first.instance)) {
        return std::nullopt;
      }
      instances.push_back(next.instance);
    }
    const auto [known, inserted] = slot_of_.try_emplace(first.instance, slots_.size());
    if (inserted) {
      slots_.push_back({.instances = std::move(instances), .first = s, .last = s});
    } else if (slots_[known->second].instances != instances) {
      return std::nullopt;
    }
    slots_[known->second].last = s;
    if (!same_slice) return std::nullopt;
    return Step{.slot = known->second, .elements = 0};
  }

  bool made_in(uint32_t instance, uint32_t iteration) const {
    if (!wider_.can_widen(instance)) return false;
    const uint32_t first = contents_.instances[instance].first;
    const uint32_t end = iteration + 1 < iterations() ? loop_->begins[iteration + 1] : loop_->end;
    return first >= loop_->begins[iteration] && first < end;
  }

  // Returns whether the hardware supports a merged access of the operand.
  bool fits(uint32_t s, size_t o, const Step& step) {
    const Operation& operation = list_.operation(at(0, s));
    const OperandRecord first = operand(0, s, o);
    const TensorKind& kind = wider_.kind(first.instance);
    const Pattern& pattern = list_.header.patterns[first.pattern];
    const bool writes = operation.writes[o];
    const int64_t m = iterations();
    if (!kind.on_chip() || pattern.axes.size() + 1 > kMostAxes) return false;
    if (is_one_of(kInvariant, operation.operands[o])) return !step.slot && step.elements == 0;
    if (pattern.elements / pattern.axes[0].count * m > limits_.elements) return false;
    if (step.slot) return kind.row_bytes() * m <= std::min(limits_.tile_bytes, kPsumBankBytes);
    if (!writes) return in_rows(kind, first.offset, step.elements);
    return step.elements != 0 && in_rows(kind, first.offset, step.elements) &&
           writes_are_disjoint(pattern, step.elements);
  }

  // Returns whether the iterations stay in the partitions where they begin.
  bool in_rows(const TensorKind& kind, int64_t offset, int64_t step) const {
    const int64_t last = offset + step * (iterations() - 1);
    return last >= 0 && last / kind.row_elements == offset / kind.row_elements;
  }

  // Returns whether no two iterations write the same element: one ends before the next begins, or
  // they interleave.
  bool writes_are_disjoint(const Pattern& pattern, int64_t step) const {
    int64_t span = 1, smallest = INT64_MAX;
    for (size_t i = 1; i < pattern.axes.size(); ++i) {
      const Axis& axis = pattern.axes[i];
      if (axis.count == 1) continue;
      span += std::abs(axis.stride) * (axis.count - 1);
      smallest = std::min(smallest, std::abs(axis.stride));
    }
    return span <= std::abs(step) || smallest >= std::abs(step) * iterations();
  }

  // Returns whether the tiles fit. Between two statements that are split, the tiles of all
  // iterations are live at once.
  bool split_fits() const {
    int64_t banks = 0, bytes = 0;
    for (const Slot& slot : slots_) {
      const TensorKind& kind = wider_.kind(slot.instances[0]);
      const int64_t rows = kind.row_bytes() * static_cast<int64_t>(iterations());
      const bool crosses =
          std::any_of(merged_.begin() + slot.first, merged_.begin() + slot.last + 1,
                      [](bool merged) { return merged; });
      if (!crosses) continue;
      if (kind.memory == Memory::kSbuf) {
        bytes += rows;
      } else {
        banks += slot.merged ? 1 : iterations();
      }
    }
    return banks <= kMostKeptBanks && bytes <= kMostKeptSbufBytes;
  }

  ListedInstruction merge(uint32_t s) {
    ListedInstruction merged = at(0, s);
    const auto first = static_cast<uint32_t>(list_.operands.size());
    for (size_t o = 0; o < merged.num_operands; ++o) {
      OperandRecord record = operand(0, s, o);  // The slots are widened.
      const Step& step = steps_[s][o];
      const bool invariant = is_one_of(kInvariant, list_.operation(merged).operands[o]);
      if (!invariant) {
        const int64_t stride = step.slot ? operand(1, s, o).offset - record.offset : step.elements;
        record.pattern = wider_.with_axis(record.pattern, {stride, iterations()});
      }
      list_.operands.push_back(record);
    }
    merged.first_operand = first;
    return merged;
  }

  InstructionList& list_;
  const Contents& contents_;
  VectorizeLimits limits_;
  LoopDependenceFinder dependences_;
  WiderTensors wider_;
  const ParallelLoop* loop_ = nullptr;
  uint32_t statements_ = 0;
  std::vector<bool> merged_;              // By statement.
  std::vector<std::vector<Step>> steps_;  // By statement and operand.
  std::vector<Slot> slots_;
  std::unordered_map<uint32_t, size_t> slot_of_;  // By the first iteration's instance.
};

}  // namespace

int64_t vectorize(InstructionList& list, const Contents& contents, const VectorizeLimits& limits) {
  return Vectorizer(list, contents, limits).run();
}

}  // namespace neuronmm::trace
