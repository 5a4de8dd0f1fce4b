#include "trainium/nki/fold.h"

#include <algorithm>
#include <iterator>

#include "trainium/tile/accesses.h"

namespace neuronmm::nki {

using tile::Affine;
using tile::Loop;
using tile::LoopId;
using tile::Node;

namespace {

// Returns true if the loop always runs once. Loops with a limit may run once or not at all, so they
// stay unless the limit has become constant.
bool runs_once(const Loop& loop) { return loop.max == 1 && !loop.limit && !loop.cores; }

// Removes loops from the outside in. The variable of a removed loop is 0 in everything inside it,
// which may make the limits of inner loops and sizes constant.
class SingleTripFolder {
 public:
  std::vector<Node> body(std::vector<Node> nodes) {
    std::vector<Node> folded;
    for (Node& node : nodes) {
      if (auto* instruction = std::get_if<tile::Instruction>(&node)) {
        tile::rewrite_accesses(instruction->operation,
                               [this](tile::Access& access) { drop(access); });
        // A sum over a loop that runs once begins anew at every matmul, with or without the loop.
        if (auto* matmul = std::get_if<tile::NcMatmul>(&instruction->operation)) {
          std::erase_if(matmul->sum_loops, [this](LoopId id) { return is_removed(id); });
        }
      } else if (auto* loop = std::get_if<Loop>(&node)) {
        drop(loop->origin);
        if (loop->limit && loop->origin.terms.empty()) {
          loop->max = loop->trip_count({});
          loop->limit.reset();
        }
        if (runs_once(*loop)) removed_.push_back(loop->id);
        loop->body = body(std::move(loop->body));
        if (runs_once(*loop)) {
          std::move(loop->body.begin(), loop->body.end(), std::back_inserter(folded));
          continue;
        }
      }
      folded.push_back(std::move(node));
    }
    return folded;
  }

 private:
  bool is_removed(LoopId id) const {
    return std::find(removed_.begin(), removed_.end(), id) != removed_.end();
  }

  void drop(Affine& affine) const {
    std::erase_if(affine.terms, [this](const auto& term) { return is_removed(term.first); });
  }

  // A size whose limit depends on no loop is a constant.
  void drop(tile::Access& access) const {
    for (tile::Slice& slice : access.slices) {
      drop(slice.start);
      drop(slice.size.origin);
      if (slice.size.limit && slice.size.origin.terms.empty()) {
        slice.size = {.max = slice.size.eval({})};
      }
    }
  }

  std::vector<LoopId> removed_;
};

}  // namespace

// Source with loops of one iteration would be longer and no clearer. The instructions do not
// change.
tile::Program fold_single_trips(tile::Program program) {
  program.body = SingleTripFolder().body(std::move(program.body));
  return program;
}

}  // namespace neuronmm::nki
