#include "trainium/simulator/dma.h"

#include <algorithm>
#include <cmath>

namespace neuronmm::simulator {

namespace {

// Shorter idle time is only the rounding of a slot's single-precision sums, in ns. Assumed. It is
// far above that rounding, which is about 1e-4 ns after some additions. It is far below the
// shortest reservation, the 7 ns of a descriptor.
constexpr double kRoundingNs = 0.01;

constexpr int64_t kMostRows = 128;  // The rows of a transfer that takes dma_instruction_ns.

}  // namespace

// The time that a reservation still has to place, and the end of the part that it placed last, in
// ns.
struct Lane::Reservation {
  double left = 0, end = 0;
};

Lane::Slot& Lane::slot(int64_t index) {
  while (newest_ < index) slots_[static_cast<size_t>(++newest_ % kSlots)] = {};
  return slots_[static_cast<size_t>(index % kSlots)];
}

// Walks from slot to slot and takes the free time of each. A transfer that comes late in program
// order can thus fill the gaps that earlier transfers have left.
double Lane::reserve(double from, double duration) {
  busy_ += duration;
  // The ring has overwritten older slots, so their contents are unknown. A reservation before the
  // oldest remaining slot moves to that slot, which is 2 ms (kSlots slots) before the newest.
  int64_t index = std::max(static_cast<int64_t>(from / kSlot), newest_ - kSlots + 1);
  index = std::max<int64_t>(index, 0);
  double position = std::clamp(from - static_cast<double>(index) * kSlot, 0.0, kSlot);
  Reservation reservation{.left = duration, .end = from};
  while (reservation.left > 0) {
    if (index >= full_begin_ && index < full_end_) {
      index = full_end_;
      position = 0;
    }
    fill(index, position, reservation);
    ++index;
    position = 0;
  }
  return reservation.end;
}

// Takes the free time of one slot from `position` on: first before its first busy moment, then in
// the holes inside its busy span, then after its last busy moment.
void Lane::fill(int64_t index, double position, Reservation& reservation) {
  Slot& s = slot(index);
  const auto take = [&](double free, double at) {
    const double taken = std::clamp(free, 0.0, reservation.left);
    reservation.left -= taken;
    s.busy += static_cast<float>(taken);
    reservation.end = static_cast<double>(index) * kSlot + at + taken;
    return static_cast<float>(at + taken);
  };
  if (s.busy == 0) {
    s.begin = static_cast<float>(position);
    s.end = take(kSlot - position, position);
  } else {
    if (position < s.begin) {
      const double begin = s.begin;
      s.begin = static_cast<float>(position);
      take(begin - position, position);
    }
    // The sum of the holes is known, but not their places. A piece that fits into the sum is taken
    // as if the holes were one hole where the reservation begins. This is the approximation that
    // the header mentions.
    const double holes = static_cast<double>(s.end - s.begin - s.busy);
    if (reservation.left > 0 && holes > kRoundingNs && position < s.end) {
      take(std::min(holes, s.end - position), std::max<double>(position, s.begin));
    }
    const double tail = std::max<double>(s.end, position);
    if (reservation.left > 0 && tail < kSlot) s.end = take(kSlot - tail, tail);
  }
  if (s.busy >= static_cast<float>(kSlot - 2 * kRoundingNs)) mark_full(index);
}

// Remembers the newest stretch of full slots. Under load, nearly every reservation would otherwise
// walk over the same hundreds of full slots.
void Lane::mark_full(int64_t index) {
  if (index == full_end_) {
    ++full_end_;
  } else if (index > full_end_) {
    full_begin_ = index;
    full_end_ = index + 1;
  }
}

// Every partition's bytes move in chunks that are contiguous in HBM, with one descriptor per chunk.
// A short chunk costs the time of its descriptor rather than of its bytes, so transfers of narrow
// rows are slow.
double engine_ns(const DeviceSpec& device, const Transfer& t, int64_t partitions) {
  const double chunks = std::ceil(static_cast<double>(t.bytes_per_partition) /
                                  static_cast<double>(std::max<int64_t>(t.chunk_bytes, 1)));
  const double chunk_bytes = static_cast<double>(t.bytes_per_partition) / chunks;
  const double rate =
      device.dma_bandwidth * t.rate * (t.transposes ? device.dma_transpose_rate : 1.0);
  const double chunk_ns =
      std::max<double>(device.dma_descriptor_floor, chunk_bytes / rate + device.dma_descriptor_ns);
  return device.dma_transfer_ns + static_cast<double>(partitions) * chunks * chunk_ns;
}

// Gives a new lane to engines whose work differs from that of their lane's leader. The new lane is
// a copy of the old one, so it keeps the common history. Lanes are never merged again.
void EngineLanes::split_lanes() {
  const size_t before = lanes_.size();
  std::vector<size_t> split_from;  // The old lane of each new lane.
  for (size_t engine = 0; engine < work_.size(); ++engine) {
    const size_t lane = lane_of_[engine];
    if (work_[engine] == work_[leaders_[lane]]) continue;
    size_t new_lane = before;
    while (new_lane < lanes_.size() &&
           (split_from[new_lane - before] != lane || work_[leaders_[new_lane]] != work_[engine])) {
      ++new_lane;
    }
    if (new_lane == lanes_.size()) {
      lanes_.push_back(Lane(lanes_[lane]));
      leaders_.push_back(engine);
      split_from.push_back(lane);
    }
    lane_of_[engine] = new_lane;
  }
}

double EngineLanes::reserve(double from) {
  split_lanes();
  double end = from;
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const double ns = work_[leaders_[lane]];
    if (ns > 0) end = std::max(end, lanes_[lane].reserve(from, ns));
  }
  return end;
}

double EngineLanes::busiest() const {
  double most = 0;
  for (const Lane& lane : lanes_) most = std::max(most, lane.busy());
  return most;
}

// Half of the queues load, a quarter store, and the rest spill (8, 4 and 4 of 16). Assumed: the
// published profiles name queues for these purposes, but not how many there are.
int DmaSystem::num_queues(Class queues, int all) {
  if (queues == Class::kLoad) return all / 2;
  return queues == Class::kStore ? all / 4 : all - all / 2 - all / 4;
}

DmaSystem::DmaSystem(const DeviceSpec& device)
    : device_(device), engines_(static_cast<size_t>(device.dma_engines)) {
  const int queues = static_cast<int>(device.dma_queues);
  queues_.resize(static_cast<size_t>(queues));
  for (Queue& queue : queues_) queue.ends.assign(static_cast<size_t>(device.dma_depth), kLongAgo);
  int first = 0;
  for (const Class c : {Class::kLoad, Class::kStore, Class::kSpill}) {
    ranges_[static_cast<size_t>(c)] = {first, num_queues(c, queues)};
    first += num_queues(c, queues);
  }
}

// Computes the time that the transfer takes on each engine.
void DmaSystem::plan(const Transfer& t) {
  std::vector<double>& work = engines_.work();
  std::fill(work.begin(), work.end(), 0.0);
  int64_t priced = 0;
  double ns = 0;
  // Local variables let the compiler keep the sums in registers. It must assume that a write to
  // `work` changes members.
  double packet_time = packet_time_, engine_time = engine_time_;
  for_each_engine(t, [&](size_t engine, int64_t partitions) {
    if (partitions != priced) ns = engine_ns(device_, t, partitions);
    priced = partitions;
    work[engine] = ns;
    packet_time += ns - device_.dma_transfer_ns;
    engine_time += ns;
  });
  packet_time_ = packet_time;
  engine_time_ = engine_time;
}

// Returns the sequencer's time for a transfer: a trigger, and the descriptors of its rows. A tile
// that is loaded again soon costs only the trigger, perhaps because the compiler keeps it. Assumed:
// that is so while the tiles loaded since then fill at most half of SBUF. Kernels that show it have
// 40 to 80 KiB between such loads, and kernels that do not show it have 160.
double DmaSystem::instruction_ns(const Transfer& t) {
  const double rows = static_cast<double>(std::min<int64_t>(t.partitions, kMostRows)) / kMostRows;
  const double trigger = device_.dma_trigger_ns;
  const double first = trigger + (device_.dma_instruction_ns - trigger) * rows;
  if (t.described) return trigger;
  if (t.content == 0) return first;
  const auto [at, is_new] = last_load_.try_emplace(t.content, loaded_);
  const bool soon = static_cast<double>(loaded_ - at->second) <= device_.sbuf_usable_bytes / 2;
  loaded_ += t.bytes_per_partition;
  at->second = loaded_;
  return !is_new && soon ? trigger : first;
}

// The queues of a class take turns. A queue issues in order, at most one transfer per issue
// interval, and has at most `dma_depth` transfers in flight. queue.ends[queue.at] is when the
// oldest of them ends.
TransferTimes DmaSystem::submit(Class queues, double ready, const Transfer& t) {
  QueueRange& range = ranges_[static_cast<size_t>(queues)];
  TransferTimes times;
  times.queue = range.first + range.next;
  range.next = (range.next + 1) % range.count;
  Queue& queue = queues_[static_cast<size_t>(times.queue)];
  if (t.software) {
    times.sequencer_ns = device_.dma_software_ns;
    ready = std::max(ready, descriptors_written_) + times.sequencer_ns;
    descriptors_written_ = ready;
  } else if (device_.dma_instruction_ns > 0) {
    times.sequencer_ns = instruction_ns(t);
    ready = sequencer_.reserve(ready, times.sequencer_ns);
  }
  times.issue = std::max({ready, queue.last_issue + device_.dma_issue_ns, queue.ends[queue.at]});
  times.data_begin = times.issue + device_.dma_start_ns;
  // The engines move their parts at the same time. They share the core's HBM bandwidth, which is
  // modelled as one more lane. The slowest lane decides when the last byte has moved.
  const double bytes = static_cast<double>(t.bytes());
  times.data_end = hbm_.reserve(times.data_begin, bytes / device_.hbm_bandwidth);
  plan(t);
  times.data_end = std::max(times.data_end, engines_.reserve(times.data_begin));
  times.visible = times.data_end + device_.dma_completion_ns;
  queue.last_issue = times.issue;
  queue.ends[queue.at] = times.data_end;
  queue.at = (queue.at + 1) % queue.ends.size();
  ++transfers_;
  active_.add(times.data_begin, times.data_end);
  return times;
}

// A lane knows the total length of the holes in a slot, but not their places. The union of the
// transfers can therefore be shorter than the busy time of one engine.
double DmaSystem::active_time() const { return std::max(active_.length(), engines_.busiest()); }

}  // namespace neuronmm::simulator
