#pragma once
// Joins the tiles of several iterations into one wider tensor, for the vectorizer (vectorize.h).
// Accesses to such a tile become accesses to a slice of the wide tensor.

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

class WiderTensors {
 public:
  WiderTensors(InstructionList& list, const Contents& contents);

  // Returns whether a tensor can become a slice. It must be on chip, at an address of the
  // compiler's choice, no view, without views, and not widened yet.
  bool can_widen(uint32_t instance) const;
  bool same_kind(uint32_t a, uint32_t b) const {
    return list_.tensors[a].kind == list_.tensors[b].kind;
  }
  const TensorKind& kind(uint32_t instance) const {
    return list_.header.tensors[list_.tensors[instance].kind];
  }

  // Makes the tensors slices of a new tensor, in this order along each partition.
  void widen(const std::vector<uint32_t>& instances);
  // Returns the operand with the same elements at their new place.
  OperandRecord relocated(const OperandRecord& operand);
  void relocate(std::span<OperandRecord> operands) {
    for (OperandRecord& operand : operands) operand = relocated(operand);
  }

  // Returns the pattern repeated along `axis`. The new axis follows that of the partitions.
  uint32_t with_axis(uint32_t pattern, const Axis& axis);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct SlicePosition {
    uint32_t instance = kNone;  // The wide tensor; kNone if it has not moved.
    int64_t slice = 0, slices = 1;
  };
  uint32_t stretched(uint32_t pattern, int64_t slices);
  uint32_t intern(Pattern pattern);

  InstructionList& list_;
  const Contents& contents_;
  std::vector<SlicePosition> positions_;                    // By instance of the original trace.
  std::vector<bool> has_views_;                             // By instance.
  std::map<std::pair<uint32_t, int64_t>, uint32_t> kinds_;  // By kind and slices.
  std::map<std::pair<uint32_t, int64_t>, uint32_t> stretched_;             // By pattern and slices.
  std::map<std::vector<std::pair<int64_t, int64_t>>, uint32_t> patterns_;  // By axes.
};

}  // namespace neuronmm::trace
