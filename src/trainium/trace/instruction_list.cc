#include "trainium/trace/instruction_list.h"

#include <cstring>

namespace neuronmm::trace {

namespace {

// Finds the innermost loops from the marks between instructions.
class LoopFinder {
 public:
  LoopFinder(const Header& header, std::vector<ParallelLoop>& out) : header_(header), out_(out) {}

  void mark(RecordKind kind, uint32_t loop, uint32_t now) {
    // A loop that Python has unrolled, or that has one iteration, is part of the body around it.
    const Loop& described = header_.loops[loop];
    if (described.kind == LoopKind::kStatic || described.count < 2) return;
    if (kind == RecordKind::kLoopBegin) {
      if (!open_.empty()) open_.back().innermost = false;
      open_.push_back({.loop = loop, .innermost = true, .span = {}});
      return;
    }
    // The loops were left before their end.
    while (!open_.empty() && open_.back().loop != loop) open_.pop_back();
    if (open_.empty()) return;
    Open& open = open_.back();
    if (kind == RecordKind::kLoopIteration) {
      if (open.innermost) open.span.begins.push_back(now);
      return;
    }
    open.span.end = now;
    if (open.innermost && described.kind == LoopKind::kAffine && open.span.iterations() > 1) {
      out_.push_back(std::move(open.span));
    }
    open_.pop_back();
  }

 private:
  struct Open {
    uint32_t loop = 0;
    bool innermost = true;
    ParallelLoop span;
  };
  const Header& header_;
  std::vector<ParallelLoop>& out_;
  std::vector<Open> open_;
};

class Bytes {
 public:
  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  void head(RecordKind kind, uint32_t count, uint32_t subject, uint32_t source, uint32_t extra) {
    append_number(static_cast<uint16_t>(kind));
    append_number(static_cast<uint16_t>(count));
    append_number(subject);
    append_number(source);
    append_number(extra);
  }
  template <typename T>
  void append_number(const T& value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

InstructionList list_instructions(const TraceFile& file) {
  InstructionList list;
  list.header = file.header();
  list.name = file.name();
  list.instructions.reserve(static_cast<size_t>(list.header.instructions));
  list.tensors.reserve(static_cast<size_t>(list.header.instances));
  LoopFinder loops(list.header, list.loops);
  for (Cursor cursor(file.records()); cursor.next();) {
    const auto kind = static_cast<RecordKind>(cursor.kind());
    if (kind == RecordKind::kInstruction) {
      list.instructions.push_back({.operation = cursor.subject(),
                                   .source = cursor.source(),
                                   .first_operand = static_cast<uint32_t>(list.operands.size()),
                                   .num_operands = static_cast<uint32_t>(cursor.num_operands())});
      for (size_t i = 0; i < cursor.num_operands(); ++i) list.operands.push_back(cursor.operand(i));
    } else if (kind == RecordKind::kAllocate) {
      list.tensors.push_back({.kind = cursor.subject(),
                              .source = cursor.source(),
                              .first_partition = cursor.extra(),
                              .allocation = cursor.allocate()});
    } else if (kind != RecordKind::kRelease) {
      loops.mark(kind, cursor.subject(), static_cast<uint32_t>(list.instructions.size()));
    }
  }
  return list;
}

TraceFile to_trace(const InstructionList& list) {
  Bytes bytes;
  bytes.reserve((list.instructions.size() + list.operands.size() + 2 * list.tensors.size()) *
                sizeof(OperandRecord));
  for (const ListedTensor& tensor : list.tensors) {
    bytes.head(RecordKind::kAllocate, 0, tensor.kind, tensor.source, tensor.first_partition);
    bytes.append_number(tensor.allocation);
  }
  for (const ListedInstruction& instruction : list.instructions) {
    bytes.head(RecordKind::kInstruction, instruction.num_operands, instruction.operation,
               instruction.source, 0);
    for (const OperandRecord& operand : list.operands_of(instruction)) bytes.append_number(operand);
  }
  Header header = list.header;
  header.instructions = static_cast<int64_t>(list.instructions.size());
  header.instances = static_cast<int64_t>(list.tensors.size());
  return TraceFile::derived(std::make_shared<const Header>(std::move(header)), bytes.take(),
                            list.name);
}

}  // namespace neuronmm::trace
