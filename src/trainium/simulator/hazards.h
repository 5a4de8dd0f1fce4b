#pragma once
// When the cells of every buffer may be read and written. The instances of a rotating buffer follow
// one another in a ring of cells, as many as its copies hold: a cell of a new instance waits for
// the readers of the cell that was in its place before. The ring need not hold a whole number of
// instances.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainium/simulator/costs.h"
#include "trainium/simulator/regions.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

struct Cell {
  double ready = 0;      // when its content is visible to other engines
  double last_read = 0;  // when its last reader is done
  Unit writer = Unit::kDma;
  // Of a spilled buffer: whether a copy is in the staging area, newer than HBM, in HBM.
  bool spills = false, staged = false, dirty = false, saved = false;
};

class BufferState {
 public:
  // `rotation`: how many instances the ring holds, at least one.
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
    visit(block, [&](const Cell& cell) { time = std::max(time, cell.ready); });
    return time;
  }
  // An engine's own earlier write is in order with the next.
  double writable(const CellBlock& block, Unit unit) const {
    double time = 0;
    visit(block, [&](const Cell& cell) {
      time = std::max(time, cell.last_read);
      if (cell.writer != unit || unit == Unit::kDma) time = std::max(time, cell.ready);
    });
    return time;
  }
  void read(const CellBlock& block, double end) {
    visit(block, [&](Cell& cell) { cell.last_read = std::max(cell.last_read, end); });
  }
  void write(const CellBlock& block, double visible, Unit unit) {
    visit(block, [&](Cell& cell) {
      cell.ready = visible;
      cell.writer = unit;
      cell.dirty = cell.spills;
    });
  }
  bool tracked() const { return tracked_; }
  bool spills() const { return spills_; }
  std::vector<Cell>& cells() { return cells_; }
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
    block.for_each([&](int64_t cell) { body(cells_[place(cell)]); });
  }
  template <typename Visit>
  void visit(const CellBlock& block, const Visit& body) {
    if (!tracked_) return;
    block.for_each([&](int64_t cell) { body(cells_[place(cell)]); });
  }

  size_t place(int64_t cell) const {
    const int64_t at = first_ + cell;
    return static_cast<size_t>(at < ring_ ? at : at - ring_);
  }

  std::vector<Cell> cells_;
  int64_t cells_per_instance_, ring_, first_ = 0;
  bool tracked_, spills_ = false;
};

}  // namespace neuronmm::simulator
