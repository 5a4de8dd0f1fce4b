#include "trainium/trace/repeated_traffic.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

namespace neuronmm::trace {

namespace {

using tile::HbmRole;
using tile::Memory;

// Larger kernels take a set of hundreds of megabytes. Their further loads repeat others only by
// their sum.
constexpr size_t kMostRemembered = size_t{1} << 22;

// Returns what an access moves: the elements that it names, each of them once.
int64_t distinct_elements(const Pattern& pattern) {
  int64_t elements = 1;
  for (const Axis& axis : pattern.axes) elements *= axis.stride == 0 ? 1 : axis.count;
  return elements;
}

class TrafficReader {
 public:
  TrafficReader(const TraceFile& file, const Contents& contents)
      : header_(file.header()), contents_(contents), cursor_(file.records()) {}

  // Calls visit(instruction, kind, transfer) for each repeated transfer, and with the kind
  // kTransfers for each other one.
  template <typename Visit>
  void run(const Visit& visit) {
    uint32_t index = 0;
    for (; cursor_.next();) {
      if (!cursor_.is(RecordKind::kInstruction)) continue;
      const uint32_t instruction = index++;
      const Operation& operation = header_.operations[cursor_.subject()];
      if (operation.engine != EngineName::kDma) continue;
      visit(instruction, kind_of(operation));
    }
  }
  const Cursor& cursor() const { return cursor_; }
  // The operand in HBM of the transfer that is visited, and its tensor.
  const OperandRecord& operand() const { return operand_; }
  uint32_t tensor() const { return contents_.instances[root_].kind; }
  int64_t bytes() const {
    const Pattern& pattern = header_.patterns[operand_.pattern];
    return pattern.elements *
           header_.tensors[contents_.instances[operand_.instance].kind].dtype.bytes;
  }

 private:
  LeftOut kind_of(const Operation& operation) {
    LeftOut kind = LeftOut::kTransfers;
    for (size_t i = 0; i < cursor_.num_operands(); ++i) {
      const OperandRecord operand = cursor_.operand(i);
      const uint32_t root = contents_.instances[operand.instance].root;
      const TensorKind& tensor = header_.tensors[contents_.instances[root].kind];
      if (tensor.memory != Memory::kHbm || operation.operands[i] == "index") continue;
      if (kind != LeftOut::kTransfers) break;
      operand_ = operand;
      root_ = root;
      const bool writes = operation.writes[i];
      if (is_round_trip(tensor, writes)) {
        kind = LeftOut::kRoundTrips;
      } else if (!writes && tensor.role == HbmRole::kInput && !operation.has_run_time_index[i] &&
                 is_reload(operand, tensor)) {
        kind = LeftOut::kReloads;
      }
    }
    return kind;
  }

  bool is_round_trip(const TensorKind& tensor, bool writes) const {
    const AccessTable& accesses = contents_.accesses;
    const uint32_t kind = contents_.instances[root_].kind;
    if (accesses.bytes_read(kind) == 0 || accesses.bytes_written(kind) == 0) return false;
    if (tensor.role == HbmRole::kInput) return false;
    return !writes || tensor.role != HbmRole::kOutput;
  }

  bool is_reload(const OperandRecord& operand, const TensorKind& tensor) {
    const int64_t bytes = distinct_elements(header_.patterns[operand.pattern]) *
                          header_.tensors[contents_.instances[operand.instance].kind].dtype.bytes;
    int64_t& loaded = loaded_[root_];
    const bool is_full = loaded + bytes > tensor.bytes();
    const Key key = {operand.instance, operand.pattern, operand.offset};
    const bool is_known = known_.contains(key);
    if (!is_known && known_.size() < kMostRemembered) known_.insert(key);
    if (is_known || is_full) return true;
    loaded += bytes;
    return false;
  }

  using Key = std::tuple<uint32_t, uint32_t, int64_t>;
  struct HashKey {
    size_t operator()(const Key& key) const {
      const auto& [instance, pattern, offset] = key;
      const uint64_t both = uint64_t{instance} << 32 | pattern;
      const uint64_t hash =
          (both ^ static_cast<uint64_t>(offset) * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
      return hash ^ hash >> 32;
    }
  };

  const Header& header_;
  const Contents& contents_;
  Cursor cursor_;
  OperandRecord operand_;
  uint32_t root_ = 0;
  std::map<uint32_t, int64_t> loaded_;  // By root: the bytes of loads that repeat no other.
  std::unordered_set<Key, HashKey> known_;
};

}  // namespace

std::vector<RepeatedBytes> repeated_traffic(const TraceFile& file, const Contents& contents) {
  std::map<std::tuple<LeftOut, uint32_t, uint32_t>, RepeatedBytes> rows;
  TrafficReader reader(file, contents);
  reader.run([&](uint32_t, LeftOut kind) {
    if (kind == LeftOut::kTransfers) return;
    const uint32_t source = reader.cursor().source(), tensor = reader.tensor();
    RepeatedBytes& row = rows[{kind, source, tensor}];
    row = {kind, source, tensor, row.bytes + reader.bytes(), row.transfers + 1};
  });
  std::vector<RepeatedBytes> sorted;
  for (const auto& [key, row] : rows) sorted.push_back(row);
  std::ranges::stable_sort(sorted, [](const RepeatedBytes& a, const RepeatedBytes& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.bytes > b.bytes;
  });
  return sorted;
}

std::vector<bool> left_out(const TraceFile& file, const Contents& contents, LeftOut kind) {
  if (kind == LeftOut::kNothing) return {};
  std::vector<bool> out(static_cast<size_t>(contents.instructions));
  TrafficReader reader(file, contents);
  reader.run([&](uint32_t instruction, LeftOut found) {
    out[instruction] = found == kind || kind == LeftOut::kTransfers;
  });
  return out;
}

}  // namespace neuronmm::trace
