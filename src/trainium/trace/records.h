#pragma once
// Reads the records of a trace, one after the other. A Cursor checks only that a record lies inside
// the bytes. check_contents() (contents.h) checks what the numbers mean, once, before any other
// code uses them.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace neuronmm::trace {

static_assert(std::endian::native == std::endian::little, "numbers are read in place");

enum class RecordKind : uint16_t {
  kInstruction = 0,
  kAllocate = 1,
  kRelease = 2,
  kLoopBegin = 3,
  kLoopIteration = 4,
  kLoopEnd = 5
};

// A tensor that an instruction reads or writes.
struct OperandRecord {
  uint32_t instance = 0, pattern = 0;
  int64_t offset = 0;  // The pattern's first element.
};
static_assert(sizeof(OperandRecord) == 16);

struct AllocateRecord {
  int64_t address = -1;  // Bytes inside a partition; -1 if the allocator chooses.
  int64_t parent = -1;   // The instance that owns these bytes, or -1.
};
static_assert(sizeof(AllocateRecord) == 16);

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> records) : records_(records) {}

  static constexpr size_t kHead = 16;
  // Moves to the next record. Returns false at the end, and at a record that is longer than the
  // remaining bytes. In the latter case at_end() is false.
  bool next() {
    at_ += size_;
    if (records_.size() - at_ < kHead) return stop();
    std::memcpy(&head_, records_.data() + at_, kHead);
    size_ = kHead + body_bytes();
    return size_ <= records_.size() - at_ || stop();
  }
  bool at_end() const { return at_ == records_.size(); }
  size_t position() const { return at_; }

  uint16_t kind() const { return head_.kind; }
  bool is(RecordKind kind) const { return head_.kind == static_cast<uint16_t>(kind); }
  size_t num_operands() const { return head_.count; }
  // An operation, tensor kind, instance or loop.
  uint32_t subject() const { return head_.subject; }
  uint32_t source() const { return head_.source; }
  uint32_t extra() const { return head_.extra; }  // kAllocate: the first partition.
  OperandRecord operand(size_t i) const { return read<OperandRecord>(i); }
  AllocateRecord allocate() const { return read<AllocateRecord>(0); }

 private:
  struct Head {
    uint16_t kind = 0, count = 0;
    uint32_t subject = 0, source = 0, extra = 0;
  };
  static_assert(sizeof(Head) == kHead);

  size_t body_bytes() const {
    if (is(RecordKind::kInstruction)) return head_.count * sizeof(OperandRecord);
    return is(RecordKind::kAllocate) ? sizeof(AllocateRecord) : 0;
  }
  bool stop() {
    size_ = 0;
    return false;
  }
  template <typename T>
  T read(size_t index) const {
    T value;
    std::memcpy(&value, records_.data() + at_ + kHead + index * sizeof(T), sizeof(T));
    return value;
  }

  std::span<const std::byte> records_;
  size_t at_ = 0, size_ = 0;
  Head head_;
};

}  // namespace neuronmm::trace
