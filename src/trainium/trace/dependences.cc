#include "trainium/trace/dependences.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

namespace neuronmm::trace {

namespace {

using tile::Memory;

class Finder {
 public:
  Finder(const InstructionList& list, const Contents& contents)
      : list_(list), contents_(contents), cells_of_(contents.instances.size(), kNone) {}

  std::vector<Dependence> run() {
    const auto count = static_cast<uint32_t>(list_.instructions.size());
    for (now_ = 0; now_ < count; ++now_) {
      earlier_.clear();
      collect();
      record_accesses();
      release();
      emit();
    }
    return std::move(found_);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct CellUses {
    uint32_t writer = kNone;
    uint32_t readers = kNone;  // The readers since the last write, as a list in readers_.
  };
  struct Reader {
    uint32_t instruction = kNone, next = kNone;
  };
  // A tensor with an address, and the instructions that accessed it.
  struct AddressedTensor {
    uint32_t root = kNone;
    int64_t begin = 0, end = 0;  // Bytes per partition.
    int64_t first_partition = 0, partitions = 0;
    std::vector<uint32_t> accesses;
  };
  struct CellAccess {
    std::span<const uint32_t> cells;
    uint32_t first = 0;  // An index in cells_.
    uint32_t root = 0;
    bool writes = false;
  };

  uint32_t first_cell(uint32_t root) {
    uint32_t& first = cells_of_[root];
    if (first != kNone) return first;
    const auto count = static_cast<uint32_t>(cells(root));
    std::vector<uint32_t>& free = free_[count];
    if (free.empty()) {
      first = static_cast<uint32_t>(cells_.size());
      cells_.resize(cells_.size() + count);
    } else {
      first = free.back();
      free.pop_back();
      std::fill_n(cells_.begin() + first, count, CellUses{});
    }
    return first;
  }
  int32_t cells(uint32_t root) const {
    return contents_.accesses.grid(contents_.instances[root].kind).cells();
  }
  // Frees the cells of the tensors whose last access is the present instruction.
  void release() {
    for (const CellAccess& touched : touched_) {
      uint32_t& first = cells_of_[touched.root];
      if (contents_.instances[touched.root].last != now_ || first == kNone) continue;
      free_[static_cast<uint32_t>(cells(touched.root))].push_back(first);
      first = kNone;
    }
  }

  void collect() {
    touched_.clear();
    const ListedInstruction& instruction = list_.instructions[now_];
    const Operation& operation = list_.operation(instruction);
    const auto operands = list_.operands_of(instruction);
    for (size_t i = 0; i < operands.size(); ++i) {
      const uint32_t root = contents_.instances[operands[i].instance].root;
      if (!contents_.accesses.tracked(contents_.instances[root].kind)) {
        if (operation.writes[i]) wait_for_write(root);
        continue;
      }
      const Access& access = contents_.access(operands[i], operation.has_run_time_index[i]);
      touched_.push_back(
          {contents_.accesses.cells(access), first_cell(root), root, operation.writes[i]});
    }
    for (const CellAccess& touched : touched_) {
      for (const uint32_t c : touched.cells) {
        wait_for_cell(cells_[touched.first + c], touched.writes);
      }
      if (contents_.instances[touched.root].address >= 0) wait_for_overlaps(touched.root);
    }
  }

  void wait_for_cell(const CellUses& cell, bool writes) {
    if (cell.writer != kNone) earlier_.push_back({cell.writer, now_, Wait::kVisible});
    if (!writes) return;
    for (uint32_t r = cell.readers; r != kNone; r = readers_[r].next) {
      earlier_.push_back({readers_[r].instruction, now_, Wait::kRead});
    }
  }
  void wait_for_write(uint32_t root) {
    const auto [last, inserted] = last_write_.try_emplace(root, now_);
    if (!inserted) earlier_.push_back({std::exchange(last->second, now_), now_, Wait::kOrder});
  }

  // Makes the first access to a tensor with an address wait for all accesses to the tensors that it
  // overlaps.
  void wait_for_overlaps(uint32_t root) {
    const Instance& instance = contents_.instances[root];
    const TensorKind& kind = list_.header.tensors[instance.kind];
    auto& placed = placed_[kind.memory == Memory::kPsum ? 1 : 0];
    const auto own_entry = std::find_if(
        placed.begin(), placed.end(), [root](const AddressedTensor& p) { return p.root == root; });
    if (own_entry != placed.end()) {
      own_entry->accesses.push_back(now_);
      return;
    }
    AddressedTensor tensor{.root = root,
                           .begin = instance.address,
                           .end = instance.address + kind.row_bytes(),
                           .first_partition = instance.first_partition,
                           .partitions = kind.rows(),
                           .accesses = {now_}};
    std::erase_if(placed, [&](const AddressedTensor& p) {
      const bool overlaps = p.begin < tensor.end && tensor.begin < p.end &&
                            p.first_partition < tensor.first_partition + tensor.partitions &&
                            tensor.first_partition < p.first_partition + p.partitions;
      if (!overlaps) return false;
      for (const uint32_t access : p.accesses) earlier_.push_back({access, now_, Wait::kVisible});
      return true;
    });
    placed.push_back(std::move(tensor));
  }

  void record_accesses() {
    for (const CellAccess& touched : touched_) {
      for (const uint32_t c : touched.cells) {
        CellUses& cell = cells_[touched.first + c];
        if (touched.writes) {
          cell = {.writer = now_, .readers = kNone};
        } else if (cell.writer != now_) {
          readers_.push_back({now_, cell.readers});
          cell.readers = static_cast<uint32_t>(readers_.size() - 1);
        }
      }
    }
  }

  void emit() {
    std::sort(earlier_.begin(), earlier_.end(), [](const Dependence& a, const Dependence& b) {
      return a.from != b.from ? a.from < b.from : a.wait > b.wait;
    });
    uint32_t last = kNone;
    for (const Dependence& dependence : earlier_) {
      if (dependence.from == last || dependence.from == now_) continue;
      found_.push_back(dependence);
      last = dependence.from;
    }
  }

  const InstructionList& list_;
  const Contents& contents_;
  uint32_t now_ = 0;
  std::vector<uint32_t> cells_of_;  // By root: the index of its first cell in cells_.
  std::vector<CellUses> cells_;
  // Unused ranges of cells_, by their number of cells.
  std::map<uint32_t, std::vector<uint32_t>> free_;
  std::vector<Reader> readers_;
  // The last write of each tensor that is only written.
  std::unordered_map<uint32_t, uint32_t> last_write_;
  std::array<std::vector<AddressedTensor>, 2> placed_;  // For SBUF and PSUM.
  std::vector<CellAccess> touched_;
  std::vector<Dependence> earlier_, found_;
};

}  // namespace

std::vector<Dependence> find_dependences(const InstructionList& list, const Contents& contents) {
  return Finder(list, contents).run();
}

}  // namespace neuronmm::trace
