#pragma once
// Implements the collectives of a communicator (communicator.h) as MPI messages from every process
// to every other one. Processes do not pass on each other's messages. A sum therefore takes two
// steps at most (to the process that adds it up, and back) whatever the number of processes, and a
// waiting process knows whom it waits for.
//
// MpiCommunicator (mpi_communicator.cc) uses this class if the processes run on several hosts, or
// on one host without shared memory (`--link messages`). Otherwise it uses SharedLink
// (shared_link.h).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/mpi_calls.h"

namespace neuronmm::parallel {

// The message form of the collectives. Every process must call the same functions in the same
// order, or the processes wait for each other without end. Each function returns the number of
// bytes that this process sent. It throws ProcessLost if a process is lost or a call of MPI fails.
class MessageLink {
 public:
  // `throw_if_lost` is called while the link waits long; it throws ProcessLost if a process is
  // lost.
  MessageLink(MPI_Comm comm, int process, int processes, std::function<void()> throw_if_lost)
      : comm_(comm),
        process_(process),
        processes_(processes),
        throw_if_lost_(std::move(throw_if_lost)) {}

  // Replace values[i] by the sum of all processes' values[i], as Communicator::sum() does. Every
  // process must pass the same number of values.
  int64_t sum(std::span<float> values, Wire wire);
  int64_t sum(std::span<double> values);
  // Sets `all` to the values of all processes in their order. Process i contributes counts[i]
  // values, and `all` has the sum of all counts. The caller checks these sizes.
  int64_t all_gather(std::span<const float> mine, std::span<const int64_t> counts,
                     std::span<float> all, Wire wire);
  // Sends `mine` to the processes in `to`, and sets all[i] to what process i sends here, for every
  // i in `from`. `all` must have an element for every process. Process i must have this process in
  // its `to` if and only if i is in `from` here. This process may be in both of its lists.
  int64_t exchange(std::span<const std::byte> mine, std::span<const int> to,
                   std::span<const int> from, std::vector<Communicator::Bytes>& all);

 private:
  template <typename Element, typename T>
  int64_t sum_as(std::span<T> values);
  template <typename Element>
  int64_t all_gather_as(std::span<const float> mine, std::span<const int64_t> counts,
                        std::span<float> all);

  void send(std::span<const std::byte> bytes, int to);
  void receive(std::span<std::byte> bytes, int from);
  void wait();

  const MPI_Comm comm_;
  const int process_, processes_;
  const std::function<void()> throw_if_lost_;
  std::vector<MPI_Request> requests_;
};

}  // namespace neuronmm::parallel
