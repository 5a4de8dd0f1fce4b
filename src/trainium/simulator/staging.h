#pragma once
// The staging area of a buffer that is not wholly resident (residency.h). It holds the few cells
// outside the resident part that are in SBUF at a time. A visit to another cell evicts the oldest,
// which is saved to HBM if it changed. The visited cell is loaded if its content is needed.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainium/simulator/hazards.h"

namespace neuronmm::simulator {

class Staging {
 public:
  // move(save or reload, earliest time) makes the transfer and returns when its data is in place.
  using Move = std::function<double(bool save, double ready)>;
  Staging() = default;
  Staging(int64_t slots, Move move) : slots_(static_cast<size_t>(slots)), move_(std::move(move)) {}

  void visit(BufferCell& cell, bool needs_content) {
    if (!cell.spills || cell.staged) return;
    Slot& slot = slots_[next_];
    next_ = next_ + 1 == slots_.size() ? 0 : next_ + 1;
    const double free = slot.cell ? evict(*slot.cell) : slot.free;
    slot.cell = &cell;
    cell.staged = true;
    if (needs_content && cell.saved) {
      cell.ready = move_(false, free);
      cell.writer = Unit::kDma;
    }
    cell.last_read = std::max(cell.last_read, free);
  }

  // Empties the staging area for a new instance of the buffer, because the old content is dead.
  // `saved` says whether the new content is in HBM.
  void forget(BufferState& buffer, bool saved) {
    for (Slot& slot : slots_) {
      if (slot.cell) slot.free = std::max(slot.cell->last_read, slot.cell->ready);
      slot.cell = nullptr;
    }
    for (BufferCell& cell : buffer.cells()) {
      cell.staged = cell.dirty = false;
      cell.saved = saved;
    }
  }

 private:
  struct Slot {
    BufferCell* cell = nullptr;
    double free = 0;
  };
  double evict(BufferCell& cell) {
    double free = std::max(cell.last_read, cell.ready);
    if (cell.dirty) {
      free = move_(true, free);
      cell.saved = true;
    }
    cell.staged = cell.dirty = false;
    return free;
  }

  std::vector<Slot> slots_;
  size_t next_ = 0;
  Move move_;
};

}  // namespace neuronmm::simulator
