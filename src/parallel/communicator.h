#pragma once
// Several processes that work on one thing, on one machine or on several. A communicator is what
// they say to one another: sums, and bytes that go around. Every process calls the same functions
// in the same order; each returns when this process has its result. Messages and comments say
// "process", since a rank here is a matrix's.
//
// A process that is gone, or that has given no sign of life for the link's time limit, ends the
// work of all: whoever waits throws ProcessLost. Slow processes are waited for however long they
// compute.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/workers_lost.h"

namespace neuronmm::parallel {

// Thrown where a process waits for one that is lost; the message names it. No call of that
// communicator succeeds after it.
struct ProcessLost : WorkersLost {
  using WorkersLost::WorkersLost;
};

// What fp32 values are in a message. kBF16: each process's values are rounded to nearest even,
// added in fp32, and (with three processes or more) the sum is rounded once more. In memory that
// processes share nothing is rounded.
enum class Wire { kFp32, kBF16 };
constexpr int64_t bytes_of(Wire wire) { return wire == Wire::kFp32 ? 4 : 2; }

// Counted by this process since the start. Bytes of values, without the headers that any network
// adds.
struct Traffic {
  int64_t collectives = 0;
  int64_t bytes_sent = 0;    // in messages to other processes
  int64_t bytes_shared = 0;  // written to memory that the processes of one host share
};

// The span of [0, count) that belongs to process i of p: the same for all i if p divides count,
// else the first ones have one more.
struct Share {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  bool operator==(const Share&) const = default;
};
Share share_of(int64_t count, int process, int processes);

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

  // How many of the processes share this machine's cores, this one among them.
  virtual int processes_of_host() const = 0;
  bool is_one_host() const { return processes_of_host() == processes_; }
  virtual std::string link() const = 0;  // "shared memory", "messages"

  // values[i] becomes the sum of all processes' values[i], which are added in the order of the
  // processes: the same bits everywhere. As many values everywhere. Sent by each process: with two,
  // all values; else 2 (p - 1) / p of them (its part of the others' shares, and its share's sum to
  // the others).
  virtual void sum(std::span<float> values, Wire wire = Wire::kFp32) = 0;
  // The same in fp64. Where the result must not depend on the number of processes, gather and add
  // in an order of the work's own.
  virtual void sum(std::span<double> values) = 0;

  // all = process 0's values, then process 1's, ...; counts[i] of process i, which may be 0. Sent
  // by each process: (p - 1) times its values.
  virtual void all_gather(std::span<const float> mine, std::span<const int64_t> counts,
                          std::span<float> all, Wire wire = Wire::kFp32) = 0;

  // What process 0 has becomes what all have. The others may wait in it for hours: they sleep.
  virtual void broadcast(Bytes& bytes) = 0;
  // What every process has, in their order: at process 0; empty at the others.
  virtual std::vector<Bytes> gather(std::span<const std::byte> mine) = 0;
  // The same, at all of them.
  virtual std::vector<Bytes> all_gather(std::span<const std::byte> mine) = 0;
  // Returns when all processes have called it.
  virtual void barrier() = 0;

  // What has happened to a process that is lost; empty while all live. From any thread.
  virtual std::string lost() const { return {}; }
  // Ends all processes, this one with `code`, and never returns: after ProcessLost, or where work
  // was broken off that the others wait for.
  [[noreturn]] virtual void end_all(int code) = 0;

 protected:
  Traffic traffic_;

 private:
  const int process_, processes_;
};

// A single process, which is everything there is: nothing is sent and nothing waits.
std::unique_ptr<Communicator> make_single();

}  // namespace neuronmm::parallel
