#pragma once
// Tracks when the cells of every buffer may be read and written, for the timing model of tile
// programs (timing.cc). The instances of a rotating buffer follow one another in a ring of cells. A
// cell of a new instance waits for the readers of the cell that was in its place before. The ring
// need not hold a whole number of instances.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainium/simulator/costs.h"
#include "trainium/simulator/regions.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

struct BufferCell {
  double ready = 0;      // When the content is visible to other engines.
  double last_read = 0;  // When the last reader has finished.
  Unit writer = Unit::kDma;
  // The state of a cell whose buffer is not wholly resident. `spills`: the cell lies outside the
  // resident part. `staged`: the cell has a copy in the staging area. `dirty`: that copy is newer
  // than HBM. `saved`: HBM has a copy.
  bool spills = false, staged = false, dirty = false, saved = false;
};

class BufferState {
 public:
  // `rotation` is the number of instances that the ring holds, at least 1. A buffer that is not
  // `tracked` is always ready.
  BufferState(int64_t cells, double rotation, bool tracked)
      : cells_per_instance_(cells),
        ring_(std::max(cells, static_cast<int64_t>(static_cast<double>(cells) * rotation))),
        tracked_(tracked) {
    if (tracked) cells_.resize(static_cast<size_t>(ring_));
  }

  void allocate() {
    first_ += cells_per_instance_;
    if (first_ >= ring_) first_ -= ring_;
  }
  double readable(const CellBlock& block) const {
    double time = 0;
    visit(block, [&](const BufferCell& cell) { time = std::max(time, cell.ready); });
    return time;
  }
  // Returns when the engine may write the block. An engine's own earlier write needs no wait
  // because the engine works in order.
  double writable(const CellBlock& block, Unit unit) const {
    double time = 0;
    visit(block, [&](const BufferCell& cell) {
      time = std::max(time, cell.last_read);
      if (cell.writer != unit || unit == Unit::kDma) time = std::max(time, cell.ready);
    });
    return time;
  }
  void read(const CellBlock& block, double end) {
    visit(block, [&](BufferCell& cell) { cell.last_read = std::max(cell.last_read, end); });
  }
  void write(const CellBlock& block, double visible, Unit unit) {
    visit(block, [&](BufferCell& cell) {
      cell.ready = visible;
      cell.writer = unit;
      cell.dirty = cell.spills;
    });
  }
  bool tracked() const { return tracked_; }
  bool spills() const { return spills_; }
  std::vector<BufferCell>& cells() { return cells_; }
  void set_spilled(int64_t resident_cells) {
    spills_ = true;
    for (size_t i = static_cast<size_t>(resident_cells); i < cells_.size(); ++i) {
      cells_[i].spills = true;
    }
  }

 private:
  template <typename Visit>
  void visit(const CellBlock& block, const Visit& body) const {
    if (!tracked_) return;
    block.for_each([&](int64_t cell) { body(cells_[ring_index(cell)]); });
  }
  template <typename Visit>
  void visit(const CellBlock& block, const Visit& body) {
    if (!tracked_) return;
    block.for_each([&](int64_t cell) { body(cells_[ring_index(cell)]); });
  }

  size_t ring_index(int64_t cell) const {
    const int64_t at = first_ + cell;
    return static_cast<size_t>(at < ring_ ? at : at - ring_);
  }

  std::vector<BufferCell> cells_;
  int64_t cells_per_instance_, ring_, first_ = 0;
  bool tracked_, spills_ = false;
};

}  // namespace neuronmm::simulator
