#include "trainium/trace/redundancy.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace neuronmm::trace {

namespace {

using tile::Memory;

// The largest result that is reused, per partition. Assumed. A result occupies memory from its
// first to its last use, and a large one costs more than computing it again.
constexpr int64_t kMostKeptBytes = 2048;  // Bytes.

struct HashKey {
  size_t operator()(const std::vector<int64_t>& key) const {
    uint64_t hash = key.size();
    for (const int64_t part : key) {
      hash = (hash ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

class Dropper {
 public:
  Dropper(InstructionList& list, const Contents& contents)
      : list_(list),
        contents_(contents),
        writers_(contents.instances.size()),
        versions_(contents.instances.size()),
        written_at_(contents.instances.size()),
        has_views_(contents.instances.size()),
        replacement_(contents.instances.size()),
        dropped_(list.instructions.size()) {}

  Redundancy run() {
    count_writers();
    Redundancy found;
    found.repeated = drop_repeated();
    found.unread = drop_unread();
    if (found.repeated + found.unread > 0) compact();
    return found;
  }

 private:
  const Instance& instance(const OperandRecord& operand) const {
    return contents_.instances[operand.instance];
  }
  const TensorKind& kind(uint32_t id) const {
    return list_.header.tensors[contents_.instances[id].kind];
  }

  void count_writers() {
    for (uint32_t id = 0; id < replacement_.size(); ++id) {
      replacement_[id] = id;
      const uint32_t root = contents_.instances[id].root;
      if (root != id) has_views_[root] = true;
    }
    for (const ListedInstruction& instruction : list_.instructions) {
      const Operation& operation = list_.operation(instruction);
      const auto operands = list_.operands_of(instruction);
      for (size_t i = 0; i < operands.size(); ++i) {
        if (operation.writes[i]) ++writers_[instance(operands[i]).root];
      }
    }
  }

  // Returns whether an instruction may be dropped as a repetition. Its operation must compute the
  // same every time. It must have one result, which is the only write to a tile of its own in SBUF.
  bool may_repeat(const ListedInstruction& instruction) const {
    const Operation& operation = list_.operation(instruction);
    for (const char* other : {"dma", "memset", "rand", "rng", "dropout", "set_rng", "register",
                              "sendrecv", "core_barrier"}) {
      if (operation.name.starts_with(other)) return false;
    }
    if (operation.accumulate || operation.dynamic) return false;
    const auto operands = list_.operands_of(instruction);
    size_t results = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Instance& tensor = instance(operands[i]);
      if (!operation.writes[i]) continue;
      const TensorKind& tensor_kind = list_.header.tensors[tensor.kind];
      if (++results > 1 || tensor.root != operands[i].instance || tensor.address >= 0 ||
          tensor_kind.memory != Memory::kSbuf || tensor_kind.row_bytes() > kMostKeptBytes ||
          writers_[tensor.root] != 1 || has_views_[tensor.root]) {
        return false;
      }
    }
    return results == 1;
  }

  // Sets key_ to the operation and its operands, each with the number of writes to it so far.
  void make_key(const ListedInstruction& instruction) {
    const Operation& operation = list_.operation(instruction);
    const auto operands = list_.operands_of(instruction);
    key_.assign({instruction.operation});
    for (size_t i = 0; i < operands.size(); ++i) {
      const OperandRecord& operand = operands[i];
      const bool writes = operation.writes[i];
      key_.push_back(writes ? contents_.instances[operand.instance].kind : operand.instance);
      key_.push_back(operand.pattern);
      key_.push_back(operand.offset);
      if (!writes) key_.push_back(versions_[instance(operand).root]);
    }
  }

  int64_t drop_repeated() {
    int64_t dropped = 0;
    size_t loop = 0;
    for (uint32_t at = 0; at < list_.instructions.size(); ++at) {
      while (loop < list_.loops.size() && list_.loops[loop].end <= at) ++loop;
      const ListedInstruction& instruction = list_.instructions[at];
      const auto operands = list_.operands_of(instruction);
      for (OperandRecord& operand : operands) operand.instance = replacement_[operand.instance];
      if (may_repeat(instruction)) {
        make_key(instruction);
        const auto [first, inserted] = first_.try_emplace(key_, at);
        if (!inserted) {
          replace(at, first->second);
          hoist(first->second);
          ++dropped;
          continue;
        }
        remember(at, loop);
      }
      const Operation& operation = list_.operation(instruction);
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!operation.writes[i]) continue;
        const uint32_t root = instance(operands[i]).root;
        ++versions_[root];
        written_at_[root] = at;
      }
    }
    return dropped;
  }

  void replace(uint32_t at, uint32_t earlier) {
    dropped_[at] = true;
    const Operation& operation = list_.operation(list_.instructions[at]);
    for (size_t i = 0; i < operation.writes.size(); ++i) {
      if (!operation.writes[i]) continue;
      replacement_[list_.operands_of(list_.instructions[at])[i].instance] =
          list_.operands_of(list_.instructions[earlier])[i].instance;
    }
  }

  // Notes that an instruction could stand before its loop, if nothing that it reads is written in
  // the loop.
  void remember(uint32_t at, size_t loop) {
    if (loop == list_.loops.size() || list_.loops[loop].begins[0] > at) return;
    const Operation& operation = list_.operation(list_.instructions[at]);
    const auto operands = list_.operands_of(list_.instructions[at]);
    for (size_t i = 0; i < operands.size(); ++i) {
      const uint32_t root = instance(operands[i]).root;
      if (operation.writes[i]) continue;
      if (versions_[root] > 0 && written_at_[root] >= list_.loops[loop].begins[0]) return;
    }
    loop_of_[at] = static_cast<uint32_t>(loop);
  }
  void hoist(uint32_t at) {
    const auto loop = loop_of_.find(at);
    if (loop == loop_of_.end()) return;
    hoisted_[loop->second].push_back(at);
    loop_of_.erase(loop);
  }

  // Drops instructions whose results nobody reads. It goes backwards, so that it also drops those
  // that only a dropped instruction reads.
  int64_t drop_unread() {
    std::vector<uint32_t> readers(contents_.instances.size());
    for_each_read([&](uint32_t root) { ++readers[root]; });
    int64_t dropped = 0;
    for (size_t at = list_.instructions.size(); at-- > 0;) {
      if (dropped_[at]) continue;
      const ListedInstruction& instruction = list_.instructions[at];
      const Operation& operation = list_.operation(instruction);
      const auto operands = list_.operands_of(instruction);
      bool writes = false, wanted = false;
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!operation.writes[i]) continue;
        const uint32_t root = instance(operands[i]).root;
        writes = true;
        wanted = wanted || readers[root] > 0 || !kind(root).on_chip();
      }
      if (!writes || wanted) continue;
      dropped_[at] = true;
      ++dropped;
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!operation.writes[i]) --readers[instance(operands[i]).root];
      }
    }
    return dropped;
  }

  template <typename Do>
  void for_each_read(const Do& visit) const {
    for (size_t at = 0; at < list_.instructions.size(); ++at) {
      if (dropped_[at]) continue;
      const ListedInstruction& instruction = list_.instructions[at];
      const Operation& operation = list_.operation(instruction);
      const auto operands = list_.operands_of(instruction);
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!operation.writes[i]) visit(instance(operands[i]).root);
      }
    }
  }

  // Closes the gaps, moves the hoisted instructions, and updates the loops.
  void compact() {
    std::vector<ListedInstruction> kept;
    kept.reserve(list_.instructions.size());
    size_t loop = 0, iteration = 0;
    std::vector<bool> moved(list_.instructions.size());
    const auto pass_marks = [&](uint32_t at) {
      while (loop < list_.loops.size()) {
        ParallelLoop& span = list_.loops[loop];
        if (iteration < span.begins.size() && span.begins[iteration] == at) {
          if (iteration == 0) hoist_before(loop, kept, moved);
          span.begins[iteration++] = static_cast<uint32_t>(kept.size());
        } else if (iteration == span.begins.size() && span.end == at) {
          span.end = static_cast<uint32_t>(kept.size());
          ++loop;
          iteration = 0;
        } else {
          return;
        }
      }
    };
    const auto count = static_cast<uint32_t>(list_.instructions.size());
    for (uint32_t at = 0; at < count; ++at) {
      pass_marks(at);
      if (!dropped_[at] && !moved[at]) kept.push_back(list_.instructions[at]);
    }
    pass_marks(count);
    list_.instructions = std::move(kept);
  }
  void hoist_before(size_t loop, std::vector<ListedInstruction>& kept, std::vector<bool>& moved) {
    const auto hoisted = hoisted_.find(static_cast<uint32_t>(loop));
    if (hoisted == hoisted_.end()) return;
    std::sort(hoisted->second.begin(), hoisted->second.end());
    for (const uint32_t at : hoisted->second) {
      moved[at] = true;
      if (!dropped_[at]) kept.push_back(list_.instructions[at]);
    }
  }

  InstructionList& list_;
  const Contents& contents_;
  // By root: the number of writes, the number of writes so far, and the last of these.
  std::vector<uint32_t> writers_, versions_, written_at_;
  std::vector<bool> has_views_;        // By root.
  std::vector<uint32_t> replacement_;  // By instance: the instance with the same content.
  std::vector<bool> dropped_;
  std::vector<int64_t> key_;
  std::unordered_map<std::vector<int64_t>, uint32_t, HashKey> first_;
  // The loop of each instruction that could leave it.
  std::unordered_map<uint32_t, uint32_t> loop_of_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> hoisted_;  // By loop.
};

}  // namespace

Redundancy drop_redundant(InstructionList& list, const Contents& contents) {
  return Dropper(list, contents).run();
}

}  // namespace neuronmm::trace
