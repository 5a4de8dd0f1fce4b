#include "trainium/trace/dead_fills.h"

#include <array>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace neuronmm::trace {

namespace {

// The least cost of a fill, in elements per partition. An instruction's interval has at least this
// length.
constexpr int64_t kLeastPiece = 64;

class FillDropper {
 public:
  FillDropper(InstructionList& list, const Contents& contents)
      : list_(list), contents_(contents), fill_of_(contents.instances.size(), kNone) {}

  int64_t run() {
    for (uint32_t at = 0; at < list_.instructions.size(); ++at) visit_instruction(at);
    std::vector<ListedInstruction> kept;
    kept.reserve(list_.instructions.size());
    std::vector<uint32_t> new_index(list_.instructions.size() + 1);
    int64_t changed = 0;
    for (uint32_t at = 0; at < list_.instructions.size(); ++at) {
      new_index[at] = static_cast<uint32_t>(kept.size());
      const auto fill = fill_at_.find(at);
      if (fill == fill_at_.end() || !shrink(at, fills_[fill->second], kept)) {
        kept.push_back(list_.instructions[at]);
      } else {
        ++changed;
      }
    }
    new_index[list_.instructions.size()] = static_cast<uint32_t>(kept.size());
    for (ParallelLoop& loop : list_.loops) {
      for (uint32_t& begin : loop.begins) begin = new_index[begin];
      loop.end = new_index[loop.end];
    }
    list_.instructions = std::move(kept);
    return changed;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  enum class CellState : uint8_t { kOther, kFilled, kRead, kDead };
  // The last fill of a tensor, and what happened to the cells that it wrote.
  struct Fill {
    uint32_t instruction = 0, root = 0;
    std::vector<CellState> cells;
  };

  const TensorGrid& grid(uint32_t root) const {
    return contents_.accesses.grid(contents_.instances[root].kind);
  }

  void visit_instruction(uint32_t at) {
    const ListedInstruction& instruction = list_.instructions[at];
    const Operation& operation = list_.operation(instruction);
    const auto operands = list_.operands_of(instruction);
    for (const bool writes : {false, true}) {  // Reads come before writes.
      for (size_t i = 0; i < operands.size(); ++i) {
        const uint32_t root = contents_.instances[operands[i].instance].root;
        if (operation.writes[i] != writes || fill_of_[root] == kNone) continue;
        const Access& access = contents_.access(operands[i], operation.has_run_time_index[i]);
        const bool covers = writes && exact(operands[i], access) && !operation.accumulate &&
                            operation.name != "tensor_copy_predicated" &&
                            !operation.has_run_time_index[i];
        mark_cells(fills_[fill_of_[root]], contents_.accesses.cells(access), covers);
      }
    }
    // shrink() writes fills that have a destination and no other operand.
    const bool fills = operation.name == "memset" && operands.size() == 1 && operation.writes[0];
    if (fills) begin_fill(at, operands[0]);
  }

  static void mark_cells(Fill& fill, std::span<const uint32_t> cells, bool covers) {
    for (const uint32_t c : cells) {
      if (fill.cells[c] == CellState::kFilled) {
        fill.cells[c] = covers ? CellState::kDead : CellState::kRead;
      }
    }
  }

  // Starts to watch a fill. It must cover whole columns of a tensor on chip that is no view.
  void begin_fill(uint32_t at, const OperandRecord& operand) {
    const Instance& instance = contents_.instances[operand.instance];
    const TensorKind& kind = list_.header.tensors[instance.kind];
    const Pattern& pattern = list_.header.patterns[operand.pattern];
    if (instance.root != operand.instance || !kind.on_chip() || pattern.axes.size() != 2 ||
        pattern.axes[1].stride != 1) {
      return;
    }
    const Access& access = contents_.access(operand, false);
    if (!exact(operand, access)) return;
    Fill fill{.instruction = at, .root = instance.root, .cells = {}};
    fill.cells.assign(static_cast<size_t>(grid(instance.root).cells()), CellState::kOther);
    for (const uint32_t c : contents_.accesses.cells(access)) fill.cells[c] = CellState::kFilled;
    fill_of_[instance.root] = static_cast<uint32_t>(fills_.size());
    fill_at_[at] = static_cast<uint32_t>(fills_.size());
    fills_.push_back(std::move(fill));
  }

  // Returns whether the access touches every byte of its cells.
  bool exact(const OperandRecord& operand, const Access& access) const {
    const uint32_t root = contents_.instances[operand.instance].root;
    const TensorGrid& cut = grid(root);
    int64_t bytes = 0;
    for (const uint32_t c : contents_.accesses.cells(access)) {
      const auto row = c / static_cast<uint32_t>(cut.num_columns());
      const auto column = c % static_cast<uint32_t>(cut.num_columns());
      bytes +=
          (cut.rows[row + 1] - cut.rows[row]) * (cut.columns[column + 1] - cut.columns[column]);
    }
    const Dtype& dtype = list_.header.tensors[contents_.instances[operand.instance].kind].dtype;
    return bytes == list_.header.patterns[operand.pattern].elements * dtype.bytes;
  }

  // Returns the columns of which a cell is read, as [first, last) in bytes.
  std::vector<Interval> needed(const Fill& fill) const {
    const TensorGrid& cut = grid(fill.root);
    std::vector<Interval> found;
    for (int32_t column = 0; column < cut.num_columns(); ++column) {
      bool wanted = false;
      for (int32_t row = 0; row < cut.num_rows(); ++row) {
        const int32_t index = row * cut.num_columns() + column;
        const CellState cell = fill.cells[static_cast<size_t>(index)];
        wanted = wanted || cell == CellState::kRead;
      }
      if (!wanted) continue;
      const auto c = static_cast<size_t>(column);
      if (!found.empty() && found.back().end == cut.columns[c]) {
        found.back().end = cut.columns[c + 1];
      } else {
        found.push_back({cut.columns[c], cut.columns[c + 1]});
      }
    }
    return found;
  }

  // Appends the remaining pieces of a fill. Returns false if the whole fill remains, or if the
  // pieces would be no less work.
  bool shrink(uint32_t at, const Fill& fill, std::vector<ListedInstruction>& out) {
    const std::vector<Interval> columns = needed(fill);
    const OperandRecord operand = list_.operands_of(list_.instructions[at])[0];
    const TensorKind& kind = list_.header.tensors[contents_.instances[fill.root].kind];
    const Pattern& pattern = list_.header.patterns[operand.pattern];
    int64_t bytes = 0;
    for (const Interval& piece : columns) {
      bytes += piece.end - piece.begin;
      if (piece.begin % kind.dtype.bytes != 0 || piece.end % kind.dtype.bytes != 0) return false;
    }
    const int64_t cost =
        static_cast<int64_t>(columns.size()) * kLeastPiece + bytes / kind.dtype.bytes;
    if (!columns.empty() && cost >= pattern.axes[1].count) return false;
    const int64_t first = operand.offset / kind.row_elements * kind.row_elements;
    const Axis partitions = pattern.axes[0];
    for (const Interval& piece : columns) {
      ListedInstruction part = list_.instructions[at];
      part.first_operand = static_cast<uint32_t>(list_.operands.size());
      list_.operands.push_back(
          {.instance = operand.instance,
           .pattern = columns_pattern(partitions, (piece.end - piece.begin) / kind.dtype.bytes),
           .offset = first + piece.begin / kind.dtype.bytes});
      out.push_back(part);
    }
    return true;
  }

  uint32_t columns_pattern(const Axis& partitions, int64_t columns) {
    const auto [known, inserted] =
        patterns_.try_emplace({partitions.stride, partitions.count, columns},
                              static_cast<uint32_t>(list_.header.patterns.size()));
    if (inserted) {
      Pattern pattern{.axes = {partitions, {1, columns}},
                      .elements = partitions.count * columns,
                      .highest = columns - 1};
      const int64_t reach = partitions.stride * (partitions.count - 1);
      (reach < 0 ? pattern.lowest : pattern.highest) += reach;
      list_.header.patterns.push_back(std::move(pattern));
    }
    return known->second;
  }

  InstructionList& list_;
  const Contents& contents_;
  std::vector<uint32_t> fill_of_;  // By root: the index in fills_ of its last fill.
  std::vector<Fill> fills_;
  std::unordered_map<uint32_t, uint32_t> fill_at_;  // By instruction: the index of its fill.
  std::map<std::array<int64_t, 3>, uint32_t> patterns_;
};

}  // namespace

int64_t drop_dead_fills(InstructionList& list, const Contents& contents) {
  return FillDropper(list, contents).run();
}

}  // namespace neuronmm::trace
