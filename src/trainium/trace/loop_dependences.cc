#include "trainium/trace/loop_dependences.h"

#include <algorithm>

namespace neuronmm::trace {

LoopDependenceFinder::CellStatements* LoopDependenceFinder::cells(uint32_t root) {
  TensorCells& cells = cells_of_[root];
  if (cells.loop != loop_) {
    cells = {.loop = loop_, .first = cells_.size()};
    const TensorGrid& grid = contents_.accesses.grid(contents_.instances[root].kind);
    cells_.resize(cells_.size() + static_cast<size_t>(grid.cells()));
  }
  return cells_.data() + cells.first;
}

// Compares an access with the earlier accesses to its cell. Within one iteration, an earlier access
// belongs to an earlier statement. A later statement, or the same one, therefore belongs to an
// earlier iteration. A writer is the exception: it may be the same instruction.
void LoopDependenceFinder::compare(const CellStatements& cell, bool writes, uint32_t statement,
                                   uint32_t iteration, LoopDependences& found) const {
  const auto now = static_cast<int64_t>(statement);
  if (cell.writer > now) found.backward = true;
  if (cell.writer == now && cell.written_in != iteration) found.loop_carried[statement] = true;
  if (!writes) return;
  if (cell.reader > now) found.backward = true;
  if (cell.reader == now) found.loop_carried[statement] = true;
}

LoopDependences LoopDependenceFinder::find(const ParallelLoop& loop, uint32_t statements) {
  ++loop_;
  cells_.clear();
  LoopDependences found;
  found.loop_carried.resize(statements);
  struct Touched {
    std::span<const uint32_t> cells;
    uint32_t root = 0;
    bool writes = false;
  };
  std::vector<Touched> accesses;
  for (uint32_t at = loop.begins[0]; at < loop.end; ++at) {
    const uint32_t iteration = (at - loop.begins[0]) / statements;
    const uint32_t statement = (at - loop.begins[0]) % statements;
    const ListedInstruction& instruction = list_.instructions[at];
    const Operation& operation = list_.operation(instruction);
    const auto operands = list_.operands_of(instruction);
    accesses.clear();
    for (size_t i = 0; i < operands.size(); ++i) {
      const uint32_t root = contents_.instances[operands[i].instance].root;
      if (!contents_.accesses.tracked(contents_.instances[root].kind)) continue;
      const Access& access = contents_.access(operands[i], operation.has_run_time_index[i]);
      accesses.push_back({contents_.accesses.cells(access), root, operation.writes[i]});
    }
    for (const Touched& touched : accesses) {
      CellStatements* tensor_cells = cells(touched.root);
      for (const uint32_t c : touched.cells) {
        compare(tensor_cells[c], touched.writes, statement, iteration, found);
      }
    }
    for (const Touched& touched : accesses) {
      CellStatements* tensor_cells = cells(touched.root);
      for (const uint32_t c : touched.cells) {
        if (touched.writes) {
          tensor_cells[c] = {.writer = statement, .reader = kNoStatement, .written_in = iteration};
        } else {
          tensor_cells[c].reader = std::max<int64_t>(tensor_cells[c].reader, statement);
        }
      }
    }
    if (found.backward) break;
  }
  return found;
}

}  // namespace neuronmm::trace
