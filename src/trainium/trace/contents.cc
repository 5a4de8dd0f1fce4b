#include "trainium/trace/contents.h"

#include <algorithm>
#include <optional>

namespace neuronmm::trace {

namespace {

class Checker {
 public:
  explicit Checker(const TraceFile& file)
      : file_(file),
        header_(file.header()),
        cursor_(file.records()),
        contents_{{}, AccessTable(file.header())},
        slots_(header_),
        checked_(slots_.count()) {
    const auto most = static_cast<int64_t>(file.records().size() / Cursor::kHead);
    contents_.instances.reserve(
        static_cast<size_t>(std::clamp<int64_t>(header_.instances, 0, most)));
  }

  Result<Contents> run() {
    while (cursor_.next()) NMM_TRY(check_record());
    if (!cursor_.at_end()) return wrong("expected a whole record, found the end of the file");
    if (contents_.instructions != header_.instructions) {
      return wrong(fmt::format("expected {} instructions in all, found {}", header_.instructions,
                               contents_.instructions));
    }
    const auto tensors = static_cast<int64_t>(contents_.instances.size());
    if (tensors != header_.instances) {
      return wrong(fmt::format("expected {} tensors in all, found {}", header_.instances, tensors));
    }
    collect_accesses();
    return std::move(contents_);
  }

 private:
  Error wrong(const std::string& what) const {
    return fail("{}: byte {}: {}", file_.name(), file_.records_at() + cursor_.position(), what);
  }
  Status in_range(std::string_view what, uint64_t found, size_t limit) const {
    if (found < limit) return {};
    return wrong(fmt::format("expected a {} below {}, found {}", what, limit, found));
  }

  Status check_record() {
    NMM_TRY(in_range("source line", cursor_.source(), header_.sources.size()));
    switch (static_cast<RecordKind>(cursor_.kind())) {
      case RecordKind::kInstruction:
        return check_instruction();
      case RecordKind::kAllocate:
        return check_allocate();
      case RecordKind::kRelease:
        return in_range("tensor", cursor_.subject(), contents_.instances.size());
      case RecordKind::kLoopBegin:
      case RecordKind::kLoopIteration:
      case RecordKind::kLoopEnd:
        return in_range("loop", cursor_.subject(), header_.loops.size());
    }
    return wrong(fmt::format("expected a record of kind 0 to 5, found {}", cursor_.kind()));
  }

  Status check_allocate() {
    const uint32_t kind_id = cursor_.subject();
    NMM_TRY(in_range("tensor kind", kind_id, header_.tensors.size()));
    const AllocateRecord record = cursor_.allocate();
    const auto id = static_cast<uint32_t>(contents_.instances.size());
    Instance instance{.kind = kind_id, .source = cursor_.source(), .root = id};
    const TensorKind& kind = header_.tensors[kind_id];
    if (record.parent != -1) {
      NMM_TRY(attach(kind, record, instance));
    } else if (record.address != -1) {
      NMM_TRY(check_address(kind, record.address));
      instance.address = record.address;
      instance.first_partition = static_cast<int32_t>(cursor_.extra());
    }
    contents_.instances.push_back(instance);
    return {};
  }

  Status check_address(const TensorKind& kind, int64_t address) const {
    constexpr int64_t kMostAddress = int64_t{1} << 40;
    if (address < 0 || address > kMostAddress) {
      return wrong(fmt::format("{}: expected an address, found {}", kind.name, address));
    }
    const auto end = static_cast<int64_t>(cursor_.extra()) + kind.shape[0];
    if (kind.on_chip() && end > kPartitions) {
      return wrong(fmt::format("{}: {} partitions do not fit behind partition {}", kind.name,
                               kind.shape[0], cursor_.extra()));
    }
    return {};
  }

  // Attaches a view to its parent. The view must lie in the parent's memory.
  Status attach(const TensorKind& kind, const AllocateRecord& record, Instance& view) const {
    const auto known = static_cast<int64_t>(contents_.instances.size());
    if (record.parent < 0 || record.parent >= known) {
      return wrong(
          fmt::format("{}: expected a parent below {}, found {}", kind.name, known, record.parent));
    }
    const Instance& parent = contents_.instances[static_cast<size_t>(record.parent)];
    view.root = parent.root;
    const TensorKind& root = header_.tensors[contents_.instances[view.root].kind];
    const bool chip = kind.on_chip();
    const int64_t available = chip ? root.row_bytes() : root.bytes();
    const int64_t size = chip ? kind.row_bytes() : kind.bytes();
    const int64_t offset = std::max<int64_t>(record.address, 0);
    if (root.memory != kind.memory || (chip && kind.shape[0] > root.shape[0]) ||
        offset > available - parent.base || size > available - parent.base - offset) {
      return wrong(fmt::format("{}: {} bytes from byte {} on do not lie inside {}", kind.name, size,
                               record.address, root.name));
    }
    view.base = parent.base + offset;
    return {};
  }

  Status check_instruction() {
    NMM_TRY(in_range("operation", cursor_.subject(), header_.operations.size()));
    const Operation& operation = header_.operations[cursor_.subject()];
    if (cursor_.num_operands() != operation.operands.size()) {
      return wrong(fmt::format("{}: expected {} operands, found {}", operation.name,
                               operation.operands.size(), cursor_.num_operands()));
    }
    if (contents_.instructions >= header_.instructions) {
      return wrong(
          fmt::format("expected {} instructions in all, found more", header_.instructions));
    }
    for (size_t i = 0; i < cursor_.num_operands(); ++i) NMM_TRY(check_operand(operation, i));
    ++contents_.instructions;
    return {};
  }

  Status check_operand(const Operation& operation, size_t i) {
    const OperandRecord operand = cursor_.operand(i);
    NMM_TRY(in_range("tensor", operand.instance, contents_.instances.size()));
    NMM_TRY(in_range("pattern", operand.pattern, header_.patterns.size()));
    const Instance& instance = contents_.instances[operand.instance];
    const TensorKind& kind = header_.tensors[instance.kind];
    const Checked now_checked = {instance.kind, operand.pattern, operand.offset};
    Checked& last = checked_[slots_.index_of(cursor_.subject(), i)];
    if (last != now_checked) {
      NMM_TRY(check_access(kind, operand, operation.has_run_time_index[i]));
      last = now_checked;
    }
    Instance& root = contents_.instances[instance.root];
    const auto now = static_cast<uint32_t>(contents_.instructions);
    root.first = std::min(root.first, now);
    root.last = now;
    const int64_t elements = std::min(header_.patterns[operand.pattern].elements, kind.elements);
    contents_.accesses.count_access(root.kind, operation.writes[i], elements * kind.dtype.bytes);
    return {};
  }

  // Adds the accesses to the table. This is a second pass because only the first pass finds the
  // tensors that are both read and written.
  void collect_accesses() {
    std::vector<std::optional<Access>> last(slots_.count());
    for (Cursor cursor(file_.records()); cursor.next();) {
      if (!cursor.is(RecordKind::kInstruction)) continue;
      for (size_t i = 0; i < cursor.num_operands(); ++i) {
        const bool has_run_time_index = header_.operations[cursor.subject()].has_run_time_index[i];
        const Access key = contents_.key(cursor.operand(i), has_run_time_index);
        std::optional<Access>& known = last[slots_.index_of(cursor.subject(), i)];
        if (known && known->same(key)) continue;
        contents_.accesses.add(key);
        known = key;
      }
    }
    contents_.accesses.finish();
  }

  // Checks that an access lies inside its tensor. On chip the first axis must go along whole
  // partitions and the others along the free dimension.
  Status check_access(const TensorKind& kind, const OperandRecord& operand,
                      bool has_run_time_index) const {
    const Pattern& pattern = header_.patterns[operand.pattern];
    if (has_run_time_index && !kind.on_chip()) return {};  // The pattern is the one at index 0.
    const int64_t elements = kind.elements;
    if (operand.offset < -pattern.lowest || operand.offset >= elements - pattern.highest) {
      return wrong(fmt::format("{}: expected an offset in [{}, {}) for pattern {}, found {}",
                               kind.name, -pattern.lowest, elements - pattern.highest,
                               operand.pattern, operand.offset));
    }
    if (!kind.on_chip()) return {};
    const int64_t row = kind.row_elements;
    const std::vector<Axis>& axes = pattern.axes;
    if (axes.empty() || (axes[0].count > 1 && axes[0].stride % row != 0)) {
      return wrong(
          fmt::format("{}: expected the first axis of pattern {} to go along the "
                      "partitions, by multiples of {} elements",
                      kind.name, operand.pattern, row));
    }
    // An axis of stride 0 could repeat a partition more often than the hardware has partitions.
    if (axes[0].count > kPartitions) {
      return wrong(fmt::format("{}: expected at most {} partitions in pattern {}, found {}",
                               kind.name, kPartitions, operand.pattern, axes[0].count));
    }
    int64_t column = (operand.offset + pattern.lowest) % row;
    for (size_t i = 1; i < axes.size(); ++i)
      column += std::abs(axes[i].stride) * (axes[i].count - 1);
    if (column >= row) {
      return wrong(fmt::format("{}: pattern {} leaves the {} elements of a partition", kind.name,
                               operand.pattern, row));
    }
    return {};
  }

  struct Checked {
    uint32_t kind = UINT32_MAX, pattern = 0;
    int64_t offset = 0;
    bool operator==(const Checked&) const = default;
  };

  const TraceFile& file_;
  const Header& header_;
  Cursor cursor_;
  Contents contents_;
  OperandSlots slots_;
  std::vector<Checked> checked_;  // The previous access of each slot.
};

}  // namespace

OperandSlots::OperandSlots(const Header& header) : first_{0} {
  for (const Operation& operation : header.operations) {
    first_.push_back(first_.back() + operation.operands.size());
  }
}

Result<Contents> check_contents(const TraceFile& file) { return Checker(file).run(); }

}  // namespace neuronmm::trace
