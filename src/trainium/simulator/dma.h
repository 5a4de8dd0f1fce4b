#pragma once
// The DMA system of one core: 16 engines that serve several in-order queues. A transfer is issued
// when its data and its destination are ready. Its first byte moves a start latency later, and a
// consumer sees the data a completion latency after the last byte. In between, the transfer needs
// time on the engines that its partitions map to, and its share of the HBM bandwidth. Later
// transfers fill the time that earlier ones leave idle, so a store that waits for a result does not
// delay the loads after it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/interval_union.h"

namespace neuronmm::simulator {

struct Transfer {
  int64_t first_partition = 0, partitions = 1;
  int64_t bytes_per_partition = 0;
  int64_t chunk_bytes = 0;  // Bytes that are contiguous in HBM.
  bool transposes = false;
  // True if GpSimd writes the descriptors because the address is known only at run time.
  bool software = false;
  // True if the descriptors exist before the kernel begins, so that nothing has to generate them.
  bool described = false;
  // Identifies what a load reads that fills a whole tile; 0 for every other transfer.
  uint64_t content = 0;
  double rate = 1;  // The share of an engine's bandwidth that this transfer reaches.

  int64_t bytes() const { return partitions * bytes_per_partition; }
};

// Calls visit(engine, partitions) for each engine that moves a part of the transfer.
template <typename Visit>
void for_each_engine(const Transfer& transfer, const Visit& visit) {
  constexpr int64_t kPartitionsPerEngine = 8;  // Engine e moves partitions 8e to 8e + 7.
  const int64_t last = transfer.first_partition + transfer.partitions;
  for (int64_t p = transfer.first_partition; p < last;) {
    const int64_t engine = p / kPartitionsPerEngine;
    const int64_t next = std::min(last, (engine + 1) * kPartitionsPerEngine);
    visit(static_cast<size_t>(engine), next - p);
    p = next;
  }
}
// Returns how long `partitions` partitions of a transfer occupy their engine, in ns.
double engine_ns(const DeviceSpec& device, const Transfer& transfer, int64_t partitions);

struct TransferTimes {
  double issue = 0, data_begin = 0, data_end = 0;
  double visible = 0;       // When the consumer sees the data.
  double sequencer_ns = 0;  // The time before `issue` in which a sequencer triggers the transfer.
  int queue = 0;
};

// The busy times of one engine. Time is cut into slots of kSlot ns. A slot knows its first and its
// last busy moment and how much of the time between them is busy, but not which part of it. The
// record is exact while a slot holds one busy stretch, and an approximation when it holds several.
// A ring keeps the newest kSlots slots.
class Lane {
 public:
  // Reserves the first `duration` ns of free time from `from` on, in several pieces if needed.
  // Returns the end.
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
  void mark_full(int64_t index);

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
  int64_t newest_ = 0;                     // Later slots are free.
  int64_t full_begin_ = 0, full_end_ = 0;  // A stretch of full slots that reserve() skips at once.
  double busy_ = 0;
};

// The lanes of all engines. Most transfers occupy every engine for the same time. Engines whose
// work has always been equal therefore share one lane, and a reservation in it counts for all of
// them.
class EngineLanes {
 public:
  explicit EngineLanes(size_t engines) : work_(engines), lane_of_(engines) {}

  // Returns each engine's work for the next reserve(), in ns. The caller fills it in; 0 means no
  // work.
  std::vector<double>& work() { return work_; }
  // Reserves the work of all engines and returns when the last one is done.
  double reserve(double from);
  double busiest() const;

 private:
  void split_lanes();

  std::vector<double> work_;
  std::vector<size_t> lane_of_;  // The lane of each engine.
  std::vector<Lane> lanes_ = {Lane()};
  std::vector<size_t> leaders_ = {0};  // The first engine of each lane.
};

class DmaSystem {
 public:
  enum class Class { kLoad, kStore, kSpill };
  // Returns how many of `all` queues serve a class. Loads, stores and spills have queues of their
  // own, as qSyncIO and qSyncSpillReload do on the device.
  static int num_queues(Class queues, int all);

  explicit DmaSystem(const DeviceSpec& device);
  TransferTimes submit(Class queues, double ready, const Transfer& transfer);

  int64_t transfers() const { return transfers_; }
  // Time that engines move data, summed over the engines.
  double packet_time() const { return packet_time_; }
  // packet_time() plus the engines' fixed cost of each transfer.
  double engine_time() const { return engine_time_; }
  double active_time() const;  // Time when at least one transfer moves data.
  int num_queues() const { return static_cast<int>(queues_.size()); }

 private:
  static constexpr double kLongAgo = -1e18;  // A time before every time of a simulation.
  struct Queue {
    double last_issue = kLongAgo;
    std::vector<double> ends;  // When the last `depth` transfers end, as a ring.
    size_t at = 0;
  };
  struct QueueRange {
    int first = 0, count = 1, next = 0;
  };

  void plan(const Transfer& transfer);
  double instruction_ns(const Transfer& transfer);

  const DeviceSpec& device_;
  EngineLanes engines_;
  Lane hbm_;
  std::unordered_map<uint64_t, int64_t> last_load_;  // By content: loaded_ at its last load.
  int64_t loaded_ = 0;  // Bytes per partition that whole tiles have loaded.
  Lane sequencer_;  // The one that triggers transfers; its hardware generates their descriptors.
  std::vector<Queue> queues_;
  std::array<QueueRange, 3> ranges_;
  double descriptors_written_ = kLongAgo;  // When GpSimd finished its last descriptors.
  int64_t transfers_ = 0;
  double packet_time_ = 0, engine_time_ = 0;
  IntervalUnion active_;
};

}  // namespace neuronmm::simulator
