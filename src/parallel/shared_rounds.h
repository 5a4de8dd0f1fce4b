#pragma once
// Exchanges between the processes of one host, through memory that all of them map. In a round each
// process writes its slot, announces this, and reads the others' slots after they have announced
// theirs. SharedLink builds the collectives from rounds.
//
// There are two slots per process, used in turn. A process that writes in round n has seen all
// others begin round n - 1, so nobody reads a slot of round n - 2 any more. One wait per round is
// therefore enough.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace neuronmm::parallel {

// The view that one process has of the shared memory.
class SharedRounds {
 public:
  // The size of a slot in bytes, which bounds what is exchanged in one round: 64 rows of 2048 fp32
  // values. Assumed: the slots of two processes, which are read together, fit into a second-level
  // cache.
  static constexpr int64_t kSlotBytes = int64_t{512} << 10;

  // Returns how many bytes of memory each process contributes. They must be zero before the first
  // round.
  static int64_t bytes_of_process();

  // memory(i) returns where this process sees the memory of process i, which begins at a cache
  // line. `throw_if_lost` is called while this process waits long; it throws if a process is
  // lost.
  SharedRounds(int process, int processes, const std::function<std::byte*(int)>& memory,
               std::function<void()> throw_if_lost);

  // The slot of this process, to be written before arrive().
  std::byte* slot() { return slot_of(process_); }
  void arrive();  // announces that the slot is written
  // Waits until process i has arrived and returns its slot of this round. To be called after
  // arrive().
  const std::byte* await(int i);
  // Waits until all have arrived; then the next round may begin.
  void finish();

 private:
  struct Header {
    alignas(64) std::atomic<uint64_t> rounds;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  Header& header(int i) { return *reinterpret_cast<Header*>(memory_(i)); }
  std::byte* slot_of(int i);

  const int process_, processes_;
  const std::function<std::byte*(int)> memory_;
  const std::function<void()> throw_if_lost_;
  uint64_t round_ = 0;
};

}  // namespace neuronmm::parallel
