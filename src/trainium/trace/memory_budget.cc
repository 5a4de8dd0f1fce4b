#include "trainium/trace/memory_budget.h"

#include <algorithm>

#include "trainium/trace/live_memory.h"

namespace neuronmm::trace {

MemoryBudget::MemoryBudget(const InstructionList& list, const Contents& contents,
                           const simulator::DeviceSpec& device)
    : list_(list), contents_(contents), tensors_(contents.instances.size()) {
  const auto bank = static_cast<int64_t>(device.psum_bank_bytes);
  capacity_ = {static_cast<int64_t>(device.sbuf_capacity()),
               static_cast<int64_t>(device.psum_banks)};
  for (size_t root = 0; root < tensors_.size(); ++root) {
    const Instance& instance = contents.instances[root];
    const TensorKind& kind = list.header.tensors[instance.kind];
    if (instance.root != root || instance.first == Instance::kNever || !kind.on_chip()) continue;
    const bool psum = kind.memory == tile::Memory::kPsum;
    const int64_t bytes = memory_taken(kind, bank);
    tensors_[root] = {.first = instance.first,
                      .last = instance.last,
                      .size = psum ? bytes / bank : bytes,
                      .memory = psum ? kPsum : kSbuf};
  }
  std::array<std::vector<int64_t>, 2> change;
  for (auto& changes : change) changes.resize(list.instructions.size() + 1);
  for (const Tensor& tensor : tensors_) {
    if (tensor.size == 0) continue;
    change[tensor.memory][tensor.first] += tensor.size;
    change[tensor.memory][tensor.last + 1] -= tensor.size;
  }
  for (size_t m = 0; m < 2; ++m) {
    int64_t now = 0;
    needed_[m].reserve(list.instructions.size());
    for (size_t i = 0; i < list.instructions.size(); ++i) {
      needed_[m].push_back(now += change[m][i]);
    }
  }
  for (uint32_t i = 0; i < list.instructions.size(); ++i) {
    for (const uint32_t root : roots(i)) ++tensors_[root].accesses;
  }
}

const std::vector<uint32_t>& MemoryBudget::roots(uint32_t instruction) {
  roots_.clear();
  for (const OperandRecord& operand : list_.operands_of(list_.instructions[instruction])) {
    const uint32_t root = contents_.instances[operand.instance].root;
    if (tensors_[root].size == 0) continue;
    if (std::find(roots_.begin(), roots_.end(), root) == roots_.end()) roots_.push_back(root);
  }
  return roots_;
}

int64_t MemoryBudget::most_needed(Memory memory, uint32_t oldest, uint32_t end) {
  Most& most = most_[memory];
  if (most.oldest != oldest) {
    most.oldest = oldest;
    most.until.clear();
  }
  const std::vector<int64_t>& needed = needed_[memory];
  while (oldest + most.until.size() < end) {
    const int64_t next = needed[oldest + most.until.size()];
    most.until.push_back(most.until.empty() ? next : std::max(most.until.back(), next));
  }
  return most.until[end - oldest - 1];
}

bool MemoryBudget::fits(uint32_t instruction, bool transfer, uint32_t oldest, Memory& full) {
  std::array<int64_t, 2> more{};
  for (const uint32_t root : roots(instruction)) {
    const Tensor& tensor = tensors_[root];
    if (tensor.allocated || tensor.first <= oldest) continue;
    more[tensor.memory] += tensor.size;
    const int64_t most = most_needed(tensor.memory, oldest, tensor.first);
    const int64_t capacity = capacity_[tensor.memory] / (transfer ? 2 : 1);
    if (most + more[tensor.memory] > capacity) {
      full = tensor.memory;
      return false;
    }
  }
  return true;
}

std::array<bool, 2> MemoryBudget::run(uint32_t instruction, uint32_t oldest) {
  std::array<bool, 2> freed{};
  for (const uint32_t root : roots(instruction)) {
    Tensor& tensor = tensors_[root];
    std::vector<int64_t>& needed = needed_[tensor.memory];
    if (!tensor.allocated || tensor.accesses == 1) most_[tensor.memory].oldest = kNone;
    if (!tensor.allocated) {
      tensor.allocated = true;
      for (uint32_t i = oldest; i < tensor.first; ++i) needed[i] += tensor.size;
    }
    if (--tensor.accesses > 0) continue;
    freed[tensor.memory] = true;
    for (uint32_t i = oldest; i <= tensor.last; ++i) needed[i] -= tensor.size;
  }
  return freed;
}

}  // namespace neuronmm::trace
