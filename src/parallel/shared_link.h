#pragma once
// The collectives of a communicator between the processes of one host, through shared memory in
// rounds of SharedRounds. MpiCommunicator uses this class if all processes run on one host.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/shared_rounds.h"

namespace neuronmm::parallel {

// The shared-memory form of the collectives. Each function returns the number of bytes that this
// process wrote for the others.
class SharedLink {
 public:
  SharedLink(int process, int processes, SharedRounds rounds)
      : process_(process), processes_(processes), rounds_(std::move(rounds)) {}

  template <typename T>  // float or double
  int64_t sum(std::span<T> values);
  int64_t all_gather(std::span<const float> mine, std::span<const int64_t> counts,
                     std::span<float> all);
  // Sets all[i] to the bytes of process i, for the processes in `wanted`; the others' entries stay
  // empty. All processes must call it.
  int64_t exchange(std::span<const std::byte> mine, std::span<const int> wanted,
                   std::vector<Communicator::Bytes>& all);
  void barrier();

 private:
  template <typename T>
  int64_t sum_slots(std::span<T> values);
  template <typename T>
  int64_t sum_shares(std::span<T> values);

  const int process_, processes_;
  SharedRounds rounds_;
};

}  // namespace neuronmm::parallel
