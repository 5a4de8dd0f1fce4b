#pragma once
// Exchanges between the processes of one host, through memory that all of them map. In a round each
// process writes its slot, says so, and reads the others' slots when all have said so.
//
// There are two slots per process, used in turn. A process that writes in round n has seen all
// others begin round n - 1, so that nobody reads round n - 2's slot any more: one wait per round is
// enough.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace neuronmm::parallel {

class SharedRounds {
 public:
  // Bytes of a slot: what goes around in one round. 64 rows of 2048 fp32 values; of those that are
  // read, two processes' fit into a second-level cache. Assumed.
  static constexpr int64_t kSlotBytes = int64_t{512} << 10;

  // Of the memory that each process contributes; zeros before the first round.
  static int64_t bytes_of_process();

  // memory(i): where this process sees process i's, at the beginning of a cache line. `give_up` is
  // asked while it waits long; it throws when there is nothing to wait for.
  SharedRounds(int process, int processes, const std::function<std::byte*(int)>& memory,
               std::function<void()> give_up);

  std::byte* slot() { return slot_of(process_); }  // this process's, before its arrive()
  void arrive();                                   // the slot is written
  // After arrive(): process i's slot of this round, once it has arrived.
  const std::byte* await(int i);
  // Waits for all: the next round may begin.
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
  const std::function<void()> give_up_;
  uint64_t round_ = 0;
};

}  // namespace neuronmm::parallel
