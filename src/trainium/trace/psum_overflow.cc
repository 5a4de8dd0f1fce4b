#include "trainium/trace/psum_overflow.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trainium/trace/live_memory.h"

namespace neuronmm::trace {

namespace {

using tile::Memory;

class PsumMover {
 public:
  PsumMover(InstructionList& list, const Contents& contents)
      : list_(list), contents_(contents), uses_(contents.instances.size()) {
    for (uint32_t at = 0; at < list.instructions.size(); ++at) collect(at);
  }

  int64_t run(int64_t capacity, int64_t bank_bytes) {
    const LivePeak peak = live_peak(list_.header, contents_, Memory::kPsum, bank_bytes);
    std::map<uint32_t, int64_t> taken;  // By kind.
    for (const uint32_t instance : peak.tensors) {
      const uint32_t kind = contents_.instances[instance].kind;
      taken[kind] += memory_taken(list_.header.tensors[kind], bank_bytes);
    }
    int64_t left = peak.bytes, moved = 0;
    while (left > capacity && !taken.empty()) {
      const auto most =
          std::max_element(taken.begin(), taken.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      const int64_t tiles = move_kind(most->first);
      if (tiles > 0) left -= most->second;
      moved += tiles;
      taken.erase(most);
    }
    if (moved > 0) rewrite();
    return moved;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // The uses of a tile: its last product, and whether it can move.
  struct Uses {
    uint32_t last_write = kNone;
    bool read = false, movable = true;
  };

  void collect(uint32_t at) {
    const ListedInstruction& instruction = list_.instructions[at];
    const Operation& operation = list_.operation(instruction);
    const auto operands = list_.operands_of(instruction);
    for (size_t i = 0; i < operands.size(); ++i) {
      const Instance& instance = contents_.instances[operands[i].instance];
      Uses& uses = uses_[instance.root];
      if (instance.root != operands[i].instance) uses.movable = false;  // The operand is a view.
      if (!operation.writes[i]) {
        uses.read = true;
        continue;
      }
      const bool product = operation.name == "nc_matmul" || operation.name == "nc_transpose";
      uses.movable = uses.movable && product && !uses.read;
      uses.last_write = at;
    }
  }

  int64_t move_kind(uint32_t kind) {
    int64_t moved = 0;
    TensorKind sbuf_copy = list_.header.tensors[kind];
    sbuf_copy.memory = Memory::kSbuf;
    const auto sbuf_kind = static_cast<uint32_t>(list_.header.tensors.size());
    for (uint32_t id = 0; id < uses_.size(); ++id) {
      const Instance& instance = contents_.instances[id];
      const Uses& uses = uses_[id];
      if (instance.kind != kind || instance.root != id || instance.address >= 0 || !uses.movable ||
          !uses.read || uses.last_write == kNone) {
        continue;
      }
      ListedTensor tensor = list_.tensors[id];
      tensor.kind = sbuf_kind;
      sbuf_copies_[id] = static_cast<uint32_t>(list_.tensors.size());
      moved_at_[uses.last_write].push_back(id);
      list_.tensors.push_back(tensor);
      ++moved;
    }
    if (moved > 0) list_.header.tensors.push_back(std::move(sbuf_copy));
    return moved;
  }

  // Inserts a copy after the last product of each moved tile, and makes the readers read the
  // copies.
  void rewrite() {
    const auto copy_operation = static_cast<uint32_t>(list_.header.operations.size());
    Operation copy;
    copy.name = "tensor_copy";
    copy.operands = {"dst", "src"};
    copy.writes = {true, false};
    copy.has_run_time_index = {false, false};
    list_.header.operations.push_back(std::move(copy));
    std::vector<ListedInstruction> out;
    std::vector<uint32_t> new_index(list_.instructions.size() + 1);
    for (uint32_t at = 0; at < list_.instructions.size(); ++at) {
      new_index[at] = static_cast<uint32_t>(out.size());
      const ListedInstruction instruction = list_.instructions[at];
      const Operation& operation = list_.operation(instruction);
      const auto operands = list_.operands_of(instruction);
      for (size_t i = 0; i < operands.size(); ++i) {
        const auto sbuf_copy = sbuf_copies_.find(operands[i].instance);
        if (sbuf_copy != sbuf_copies_.end() && !operation.writes[i]) {
          operands[i].instance = sbuf_copy->second;
        }
      }
      out.push_back(instruction);
      const auto moved = moved_at_.find(at);
      if (moved == moved_at_.end()) continue;
      for (const uint32_t id : moved->second) {
        out.push_back(
            {copy_operation, instruction.source, static_cast<uint32_t>(list_.operands.size()), 2});
        const uint32_t whole = whole_pattern(contents_.instances[id].kind);
        list_.operands.push_back({sbuf_copies_[id], whole, 0});
        list_.operands.push_back({id, whole, 0});
      }
    }
    new_index[list_.instructions.size()] = static_cast<uint32_t>(out.size());
    for (ParallelLoop& loop : list_.loops) {
      for (uint32_t& begin : loop.begins) begin = new_index[begin];
      loop.end = new_index[loop.end];
    }
    list_.instructions = std::move(out);
  }

  uint32_t whole_pattern(uint32_t kind) {
    const auto [known, inserted] =
        whole_.try_emplace(kind, static_cast<uint32_t>(list_.header.patterns.size()));
    if (inserted) {
      const TensorKind& tensor = list_.header.tensors[kind];
      Pattern pattern;
      pattern.axes = {{tensor.row_elements, tensor.rows()}, {1, tensor.row_elements}};
      pattern.elements = tensor.elements;
      pattern.highest = tensor.elements - 1;
      list_.header.patterns.push_back(std::move(pattern));
    }
    return known->second;
  }

  InstructionList& list_;
  const Contents& contents_;
  std::vector<Uses> uses_;                                        // By root.
  std::unordered_map<uint32_t, uint32_t> sbuf_copies_;            // By tile: the tensor in SBUF.
  std::unordered_map<uint32_t, std::vector<uint32_t>> moved_at_;  // By instruction: the tiles.
  std::map<uint32_t, uint32_t> whole_;                            // By kind.
};

}  // namespace

int64_t move_out_of_psum(InstructionList& list, const Contents& contents, int64_t capacity,
                         int64_t bank_bytes) {
  return PsumMover(list, contents).run(capacity, bank_bytes);
}

}  // namespace neuronmm::trace
