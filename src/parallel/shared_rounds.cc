#include "parallel/shared_rounds.h"

#include "base/result.h"
#include "parallel/backoff.h"

namespace neuronmm::parallel {

int64_t SharedRounds::bytes_of_process() {
  return static_cast<int64_t>(sizeof(Header)) + 2 * kSlotBytes;
}

SharedRounds::SharedRounds(int process, int processes, const std::function<std::byte*(int)>& memory,
                           std::function<void()> throw_if_lost)
    : process_(process),
      processes_(processes),
      memory_(memory),
      throw_if_lost_(std::move(throw_if_lost)) {
  for (int i = 0; i < processes; ++i) {
    NMM_CHECK(reinterpret_cast<uintptr_t>(memory(i)) % alignof(Header) == 0);
  }
}

std::byte* SharedRounds::slot_of(int i) {
  return memory_(i) + sizeof(Header) + static_cast<int64_t>(round_ % 2) * kSlotBytes;
}

// The release order lets every process that sees the count see the slot's data.
void SharedRounds::arrive() {
  header(process_).rounds.store(round_ + 1, std::memory_order_release);
}

const std::byte* SharedRounds::await(int i) {
  const std::atomic<uint64_t>& rounds = header(i).rounds;
  Backoff backoff;
  while (rounds.load(std::memory_order_acquire) <= round_) {
    backoff.pause();
    if (backoff.is_long()) throw_if_lost_();
  }
  return slot_of(i);
}

void SharedRounds::finish() {
  for (int i = 0; i < processes_; ++i) await(i);
  ++round_;
}

}  // namespace neuronmm::parallel
