#include "trainium/trace/wider_tensors.h"

namespace neuronmm::trace {

WiderTensors::WiderTensors(InstructionList& list, const Contents& contents)
    : list_(list),
      contents_(contents),
      positions_(contents.instances.size()),
      has_views_(contents.instances.size()) {
  for (uint32_t id = 0; id < contents.instances.size(); ++id) {
    if (contents.instances[id].root != id) has_views_[contents.instances[id].root] = true;
  }
}

bool WiderTensors::can_widen(uint32_t instance) const {
  if (instance >= positions_.size()) return false;
  const Instance& original = contents_.instances[instance];
  return positions_[instance].instance == kNone && original.root == instance &&
         original.address < 0 && !has_views_[instance] && kind(instance).on_chip();
}

void WiderTensors::widen(const std::vector<uint32_t>& instances) {
  const auto slices = static_cast<int64_t>(instances.size());
  ListedTensor wide = list_.tensors[instances[0]];
  const auto [known, inserted] =
      kinds_.try_emplace({wide.kind, slices}, static_cast<uint32_t>(list_.header.tensors.size()));
  if (inserted) {
    TensorKind kind = list_.header.tensors[wide.kind];
    kind.shape.insert(kind.shape.begin() + 1, slices);
    kind.elements *= slices;
    kind.row_elements *= slices;
    list_.header.tensors.push_back(std::move(kind));
  }
  wide.kind = known->second;
  const auto id = static_cast<uint32_t>(list_.tensors.size());
  list_.tensors.push_back(wide);
  for (size_t i = 0; i < instances.size(); ++i) {
    positions_[instances[i]] = {.instance = id, .slice = static_cast<int64_t>(i), .slices = slices};
  }
}

OperandRecord WiderTensors::relocated(const OperandRecord& operand) {
  if (operand.instance >= positions_.size()) return operand;
  const SlicePosition& position = positions_[operand.instance];
  if (position.instance == kNone) return operand;
  const int64_t row = kind(operand.instance).row_elements;
  const int64_t partition = operand.offset / row, column = operand.offset % row;
  return {.instance = position.instance,
          .pattern = stretched(operand.pattern, position.slices),
          .offset = (partition * position.slices + position.slice) * row + column};
}

// Returns the pattern in a tensor that is `slices` times as wide, whose partitions are that much
// farther apart.
uint32_t WiderTensors::stretched(uint32_t pattern, int64_t slices) {
  const auto known = stretched_.find({pattern, slices});
  if (known != stretched_.end()) return known->second;
  Pattern wide = list_.header.patterns[pattern];
  wide.axes[0].stride *= slices;
  return stretched_[{pattern, slices}] = intern(std::move(wide));
}

uint32_t WiderTensors::with_axis(uint32_t pattern, const Axis& axis) {
  Pattern wider = list_.header.patterns[pattern];
  wider.axes.insert(wider.axes.begin() + 1, axis);
  // Neighbouring axes that are contiguous become one.
  if (wider.axes.size() > 2 && wider.axes[2].stride * wider.axes[2].count == axis.stride) {
    wider.axes[2].count *= axis.count;
    wider.axes.erase(wider.axes.begin() + 1);
  }
  return intern(std::move(wider));
}

uint32_t WiderTensors::intern(Pattern pattern) {
  std::vector<std::pair<int64_t, int64_t>> key;
  pattern.elements = 1;
  pattern.lowest = pattern.highest = 0;
  for (const Axis& axis : pattern.axes) {
    key.emplace_back(axis.stride, axis.count);
    pattern.elements *= axis.count;
    (axis.stride < 0 ? pattern.lowest : pattern.highest) += axis.stride * (axis.count - 1);
  }
  const auto [known, inserted] =
      patterns_.try_emplace(key, static_cast<uint32_t>(list_.header.patterns.size()));
  if (inserted) list_.header.patterns.push_back(std::move(pattern));
  return known->second;
}

}  // namespace neuronmm::trace
