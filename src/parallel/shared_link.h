#pragma once
// The collectives of a communicator between the processes of one host, in rounds of SharedRounds.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/shared_rounds.h"

namespace neuronmm::parallel {

// Each function returns the bytes that this process wrote for the others.
class SharedLink {
 public:
  SharedLink(int process, int processes, SharedRounds rounds)
      : process_(process), processes_(processes), rounds_(std::move(rounds)) {}

  template <typename T>  // float, double
  int64_t sum(std::span<T> values);
  int64_t all_gather(std::span<const float> mine, std::span<const int64_t> counts,
                     std::span<float> all);
  // all[i] = what process i has, for the processes that `wanted` names; the others' stay empty.
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
