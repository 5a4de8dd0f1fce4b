#pragma once
// Tiles of several iterations become slices of one wider tensor. Whoever accesses such a tile
// accesses a part of the wide one from then on.

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

  // On chip, at an address of the compiler's choice, no view and without views, not widened yet.
  bool can_widen(uint32_t instance) const;
  bool same_kind(uint32_t a, uint32_t b) const {
    return list_.tensors[a].kind == list_.tensors[b].kind;
  }
  const TensorKind& kind(uint32_t instance) const {
    return list_.header.tensors[list_.tensors[instance].kind];
  }

  // Makes them slices, in this order along each partition, of a new tensor.
  void widen(const std::vector<uint32_t>& instances);
  // The same elements, where they lie now.
  OperandRecord followed(const OperandRecord& operand);
  void follow(std::span<OperandRecord> operands) {
    for (OperandRecord& operand : operands) operand = followed(operand);
  }

  // The pattern, repeated along `axis`: on chip behind the partitions' axis.
  uint32_t with_axis(uint32_t pattern, const Axis& axis);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Place {
    uint32_t instance = kNone;  // the wide one; kNone: where it was
    int64_t slice = 0, slices = 1;
  };
  uint32_t stretched(uint32_t pattern, int64_t slices);
  uint32_t intern(Pattern pattern);

  InstructionList& list_;
  const Contents& contents_;
  std::vector<Place> places_;                               // by instance of the trace as it was
  std::vector<bool> has_views_;                             // by instance
  std::map<std::pair<uint32_t, int64_t>, uint32_t> kinds_;  // by kind and slices
  std::map<std::pair<uint32_t, int64_t>, uint32_t> stretched_;             // by pattern and slices
  std::map<std::vector<std::pair<int64_t, int64_t>>, uint32_t> patterns_;  // by axes
};

}  // namespace neuronmm::trace
