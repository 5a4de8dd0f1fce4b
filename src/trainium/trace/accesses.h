#pragma once
// The table of the distinct accesses of a trace and of the cells that each access touches. Tensors
// of one kind are cut into cells where their accesses begin and end. The simulator can thus track
// hazards between accesses that overlap, and between no others. A cell is what the compiler calls a
// tile. check_contents() (contents.h) fills the table.

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "trainium/trace/footprint.h"
#include "trainium/trace/header.h"

namespace neuronmm::trace {

// The cells of a tensor: the rectangles between the cuts of its rows and the cuts of its columns
// (bytes).
struct TensorGrid {
  std::vector<int64_t> rows, columns;  // Ascending cuts, from 0 to the end.
  int32_t num_rows() const { return static_cast<int32_t>(rows.size()) - 1; }
  int32_t num_columns() const { return static_cast<int32_t>(columns.size()) - 1; }
  int32_t cells() const { return num_rows() * num_columns(); }
};

// The properties of an access that its time depends on, wherever in its tensor the access lies.
struct Form {
  tile::Memory memory = tile::Memory::kHbm;
  Dtype dtype;
  int64_t partitions = 1;  // 1 in HBM.
  int64_t elements = 1;  // Elements per partition; a repeated element counts every time it is read.
  int64_t contiguous = 1;  // The number of elements that follow one another in memory.
  // Distance of neighbours along the innermost axis; 0 for a single element.
  int64_t inner_stride_bytes = 0;
  int64_t bytes() const { return partitions * elements * dtype.bytes; }
  bool dense() const { return contiguous == elements; }
};

// A distinct access.
struct Access {
  // The offset of an access that may lie anywhere in its tensor.
  static constexpr int64_t kRunTimeOffset = INT64_MIN;

  uint32_t root_kind = 0, kind = 0, pattern = 0;
  // The view's offset in its root in bytes, and the access's offset in elements.
  int64_t base = 0, offset = 0;
  uint32_t form = 0;
  uint32_t first_cell = 0, num_cells = 0;  // A range of AccessTable::cells_.
  int32_t first_partition = 0;

  bool same(const Access& other) const {
    return kind == other.kind && pattern == other.pattern && offset == other.offset &&
           base == other.base && root_kind == other.root_kind;
  }
};

class AccessTable {
 public:
  // The header must outlive the table.
  explicit AccessTable(const Header& header);

  // Notes that tensors of a kind are read or written, and how many bytes. All accesses must be
  // noted before the first add().
  void count_access(uint32_t root_kind, bool writes, int64_t bytes) {
    Kind& kind = kinds_[root_kind];
    (writes ? kind.written : kind.read) = true;
    int64_t& moved = writes ? kind.bytes_written : kind.bytes_read;
    moved = std::min(moved + bytes, header_->tensors[root_kind].bytes());
  }
  // Returns the key that identifies an access. The place of an access matters only in tensors whose
  // hazards are tracked. All calls of count_access() must come first.
  Access key(Access access) const {
    if (!tracked(access.root_kind)) access.offset = access.base = 0;
    return access;
  }
  // Adds the access of a key. The numbers in the key must have been checked.
  void add(Access access);
  // Cuts the tensors into cells. Call it once, after the last add().
  void finish();

  // Returns the access of a key that was added.
  const Access& find(Access access) const;
  std::span<const uint32_t> cells(const Access& access) const {
    return {cells_.data() + access.first_cell, access.num_cells};
  }
  const Form& form(const Access& access) const { return forms_[access.form]; }
  const Form& form(uint32_t id) const { return forms_[id]; }
  const TensorGrid& grid(uint32_t kind) const { return kinds_[kind].grid; }
  // Returns whether hazards are tracked for a kind. Nothing waits for a tensor in HBM that is only
  // read or only written.
  bool tracked(uint32_t kind) const {
    const Kind& k = kinds_[kind];
    return k.on_chip || (k.read && k.written);
  }
  int64_t bytes_read(uint32_t kind) const { return kinds_[kind].bytes_read; }
  int64_t bytes_written(uint32_t kind) const { return kinds_[kind].bytes_written; }

 private:
  struct Kind {
    TensorGrid grid;
    int64_t accesses = 0;
    // The sum over all accesses, at most the tensor's size.
    int64_t bytes_read = 0, bytes_written = 0;
    bool on_chip = false, read = false, written = false;
  };
  struct Slot {
    uint64_t hash = 0;
    uint32_t entry = kEmpty;
  };
  static constexpr uint32_t kEmpty = UINT32_MAX;

  uint32_t form_of(uint32_t kind, uint32_t pattern);
  const Slot* lookup(const Access& access, uint64_t hash) const;
  void insert(const Access& access, uint64_t hash);
  void grow();
  Footprint footprint_of(const Access& access) const;
  void cut(TensorGrid& grid, const std::vector<uint32_t>& accesses) const;
  int64_t count_cells(const TensorGrid& grid, const std::vector<uint32_t>& accesses) const;
  void assign_cells(Access& access);

  const Header* header_;
  std::vector<Kind> kinds_;  // By root kind.
  std::vector<Access> accesses_;
  std::vector<Slot> slots_;
  std::vector<Form> forms_;
  std::unordered_map<uint64_t, uint32_t> form_ids_;  // By kind and pattern.
  std::vector<uint32_t> cells_;
};

}  // namespace neuronmm::trace
