#pragma once
// The DMA system of one core: 16 engines that serve several in-order queues. A transfer is issued
// when its data and its place are ready, its first byte moves a start latency later, and a consumer
// sees it a completion latency after its last byte. In between it needs time on the engines that
// its partitions map to, and its share of the HBM bandwidth; what another transfer leaves idle is
// filled, so that a store that waits for a result does not hold up the loads behind it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/interval_union.h"

namespace neuronmm::simulator {

struct Transfer {
  int64_t first_partition = 0, partitions = 1;
  int64_t bytes_per_partition = 0;
  int64_t chunk_bytes = 0;  // contiguous in HBM
  bool transposes = false;
  // GpSimd writes its descriptors, as its address is known at run time only.
  bool software = false;
  double rate = 1;  // of what an engine moves otherwise

  int64_t bytes() const { return partitions * bytes_per_partition; }
};

// The part of a transfer that each engine moves: visit(engine, its partitions).
template <typename Visit>
void for_each_engine(const Transfer& transfer, const Visit& visit) {
  constexpr int64_t kPartitionsPerEngine = 8;  // engine e moves partitions 8e .. 8e + 7
  const int64_t last = transfer.first_partition + transfer.partitions;
  for (int64_t p = transfer.first_partition; p < last;) {
    const int64_t engine = p / kPartitionsPerEngine;
    const int64_t next = std::min(last, (engine + 1) * kPartitionsPerEngine);
    visit(static_cast<size_t>(engine), next - p);
    p = next;
  }
}
// How long `partitions` of a transfer keep their engine, ns.
double engine_ns(const DeviceSpec& device, const Transfer& transfer, int64_t partitions);

struct TransferTimes {
  double issue = 0, data_begin = 0, data_end = 0;
  double visible = 0;  // to the consumer
  int queue = 0;
};

// When one engine is busy. Time is cut into slots of kSlot ns. A slot knows its first and its last
// busy moment and how much of the time between them is busy, but not which part of it: this is
// exact while a slot holds one busy stretch, and an approximation when it holds several. The newest
// kSlots slots are kept in a ring.
class Lane {
 public:
  // Reserves `duration` ns, not before `from`; where the lane is busy, later. Returns the end.
  double reserve(double from, double duration);
  double busy() const { return busy_; }

 private:
  static constexpr double kSlot = 512;
  static constexpr int64_t kSlots = 4096;
  struct Slot {
    float begin = 0, end = 0, busy = 0;
  };
  struct Reservation;
  Slot& slot(int64_t index);
  void fill(int64_t index, double position, Reservation& reservation);
  void note_full(int64_t index);

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
  int64_t newest_ = 0;                     // slots beyond it are free
  int64_t full_begin_ = 0, full_end_ = 0;  // a stretch of full slots, to step over at once
  double busy_ = 0;
};

// The lanes of all engines. Engines that have always worked alike share one, which is reserved once
// for all of them: most transfers take every engine for the same time.
class EngineLanes {
 public:
  explicit EngineLanes(size_t engines) : work_(engines), lane_of_(engines) {}

  // What each engine has to do next, ns; 0: nothing.
  std::vector<double>& work() { return work_; }
  double reserve(double from);  // does it; returns when the last of them is done
  double busiest() const;

 private:
  void part();

  std::vector<double> work_;
  std::vector<size_t> lane_of_;  // by engine
  std::vector<Lane> lanes_ = {Lane()};
  std::vector<size_t> leaders_ = {0};  // by lane, the first of its engines
};

class DmaSystem {
 public:
  enum class Class { kLoad, kStore, kSpill };
  // Queues of a class, of `queues` in all: loads, stores and spills have queues of their own, as
  // qSyncIO and qSyncSpillReload do.
  static int num_queues(Class queues, int all);

  explicit DmaSystem(const DeviceSpec& device);
  TransferTimes submit(Class queues, double ready, const Transfer& transfer);

  int64_t transfers() const { return transfers_; }
  double packet_time() const { return packet_time_; }  // data on the engines, summed over them
  double engine_time() const { return engine_time_; }  // and what transfers cost beside it
  double active_time() const;                          // at least one transfer moves data
  int num_queues() const { return static_cast<int>(queues_.size()); }

 private:
  static constexpr double kLongAgo = -1e18;  // before any time of a simulation
  struct Queue {
    double last_issue = kLongAgo;
    std::vector<double> ends;  // of the last `depth` transfers, a ring
    size_t at = 0;
  };
  struct QueueRange {
    int first = 0, count = 1, next = 0;
  };

  void plan(const Transfer& transfer);

  const DeviceSpec& device_;
  EngineLanes engines_;
  Lane hbm_;
  std::vector<Queue> queues_;
  std::array<QueueRange, 3> ranges_;
  double descriptors_written_ = kLongAgo;  // GpSimd's last ones
  int64_t transfers_ = 0;
  double packet_time_ = 0, engine_time_ = 0;
  IntervalUnion active_;
};

}  // namespace neuronmm::simulator
