#pragma once
// Communication between several processes that work on one task, on one machine or on several:
// sums, and bytes that are exchanged. Every process calls the same functions in the same order, and
// each call returns when this process has its result. Messages and comments say "process", because
// "rank" means a matrix's rank here.
//
// If a process is gone, or has given no sign of life for the link's time limit, the work of all
// ends: every waiting process throws ProcessLost. Slow processes are waited for, however long they
// compute.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/workers_lost.h"

namespace neuronmm::parallel {

// Thrown by a process that waits for a lost one; the message names it. No later call of the
// communicator succeeds.
struct ProcessLost : WorkersLost {
  using WorkersLost::WorkersLost;
};

// The form of fp32 values in a message. With kBF16 each process's values are rounded to nearest
// even and added in fp32; with three processes or more the sum is rounded once more. In memory that
// processes share nothing is rounded.
enum class Wire { kFp32, kBF16 };
constexpr int64_t bytes_of(Wire wire) { return wire == Wire::kFp32 ? 4 : 2; }

// The amount that this process has communicated since the start. Bytes are those of values, without
// the headers that a network adds.
struct Traffic {
  int64_t collectives = 0;
  int64_t bytes_sent = 0;    // sent in messages to other processes
  int64_t bytes_shared = 0;  // written to memory that the processes of one host share
};

// The part of [0, count) that belongs to one process. All parts are equal if the number of
// processes divides count; otherwise the first ones have one more element.
struct Share {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  bool operator==(const Share&) const = default;
};
Share share_of(int64_t count, int process, int processes);

// The interface of a link between processes. connect() and make_single() make one.
class Communicator {
 public:
  using Bytes = std::vector<std::byte>;

  Communicator(int process, int processes) : process_(process), processes_(processes) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int process() const { return process_; }      // 0 <= process() < processes()
  int processes() const { return processes_; }  // 1 or more
  bool is_first() const { return process_ == 0; }
  Share share(int64_t count) const { return share_of(count, process_, processes_); }
  const Traffic& traffic() const { return traffic_; }

  // Returns how many of the processes share this machine's cores, including this one.
  virtual int processes_of_host() const = 0;
  bool is_one_host() const { return processes_of_host() == processes_; }
  virtual std::string link() const = 0;  // "shared memory", "messages"

  // Replaces values[i] by the sum of all processes' values[i]. The values are added in the order of
  // the processes, so that all get the same bits. Every process must pass the same number of
  // values. With two processes each sends all its values; with p it sends 2 (p - 1) / p of them
  // (its part of the others' shares, and the sum of its share to the others).
  virtual void sum(std::span<float> values, Wire wire = Wire::kFp32) = 0;
  // Does the same in fp64. If the result must not depend on the number of processes, gather the
  // values and add them in an order of your own.
  virtual void sum(std::span<double> values) = 0;

  // Sets `all` to process 0's values, then process 1's, and so on. Process i contributes counts[i]
  // values, possibly none. Each process sends its values (p - 1) times.
  virtual void all_gather(std::span<const float> mine, std::span<const int64_t> counts,
                          std::span<float> all, Wire wire = Wire::kFp32) = 0;

  // Copies process 0's bytes to all processes. The others may wait in this call for hours; they
  // sleep.
  virtual void broadcast(Bytes& bytes) = 0;
  // Returns the bytes of every process, in order, at process 0; elsewhere the result is empty.
  virtual std::vector<Bytes> gather(std::span<const std::byte> mine) = 0;
  // Returns the bytes of every process, in order, at all processes.
  virtual std::vector<Bytes> all_gather(std::span<const std::byte> mine) = 0;
  // Returns when all processes have called it.
  virtual void barrier() = 0;

  // Returns what has happened to a process that is lost, or an empty string while all live. Any
  // thread may call it.
  virtual std::string lost() const { return {}; }
  // Ends all processes, this one with exit code `code`, and never returns. It is called after
  // ProcessLost, or if work was broken off that other processes wait for.
  [[noreturn]] virtual void end_all(int code) = 0;

 protected:
  Traffic traffic_;

 private:
  const int process_, processes_;
};

// Makes the communicator of a single process: nothing is sent and no call waits.
std::unique_ptr<Communicator> make_single();

}  // namespace neuronmm::parallel
