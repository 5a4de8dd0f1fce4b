#include "trainium/simulator/dma.h"

#include <algorithm>
#include <cmath>

namespace neuronmm::simulator {

namespace {

// Idle time below this is no gap but the rounding of a slot's single-precision sums, ns. Assumed:
// far above the rounding (about 1e-4 ns after some additions of numbers up to 512) and far below
// the shortest thing that a lane is reserved for (a descriptor's 7 ns).
constexpr double kRoundingNs = 0.01;

}  // namespace

// What a reservation still has to place, and where its last placed part ends, ns.
struct Lane::Reservation {
  double left = 0, end = 0;
};

Lane::Slot& Lane::slot(int64_t index) {
  while (newest_ < index) slots_[static_cast<size_t>(++newest_ % kSlots)] = {};
  return slots_[static_cast<size_t>(index % kSlots)];
}

// Walks from slot to slot and takes what each has free, so that a transfer that comes late in
// program order still fills the gaps that earlier ones have left.
double Lane::reserve(double from, double duration) {
  busy_ += duration;
  // What happened in slots that the ring has overwritten is forgotten: such a reservation moves to
  // the oldest slot that is left, 2 ms (kSlots slots) before the newest.
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

// Takes what is free in one slot from `position` on: before its first busy moment, in the holes
// inside its busy span, behind its last busy moment, in this order.
void Lane::fill(int64_t index, double position, Reservation& reservation) {
  Slot& s = slot(index);
  const auto take = [&](double room, double at) {
    const double taken = std::clamp(room, 0.0, reservation.left);
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
    // The sum of the holes is known and their places are not: what fits into the sum is taken as if
    // it were one hole where the reservation wants to begin. This is the approximation that the
    // header speaks of.
    const double holes = static_cast<double>(s.end - s.begin - s.busy);
    if (reservation.left > 0 && holes > kRoundingNs && position < s.end) {
      take(std::min(holes, s.end - position), std::max<double>(position, s.begin));
    }
    const double tail = std::max<double>(s.end, position);
    if (reservation.left > 0 && tail < kSlot) s.end = take(kSlot - tail, tail);
  }
  if (s.busy >= static_cast<float>(kSlot - 2 * kRoundingNs)) note_full(index);
}

// One stretch of full slots is remembered, the newest. Under load nearly every reservation would
// otherwise walk over the same hundreds of full slots again.
void Lane::note_full(int64_t index) {
  if (index == full_end_) {
    ++full_end_;
  } else if (index > full_end_) {
    full_begin_ = index;
    full_end_ = index + 1;
  }
}

// Every partition's bytes are moved in chunks that are contiguous in HBM, one descriptor each. A
// short chunk costs its descriptor and not its bytes, which is why transfers of narrow rows are
// slow.
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

// Engines whose work differs from their leader's get lanes of their own, with what they had in
// common. Lanes never become one again.
void EngineLanes::part() {
  const size_t before = lanes_.size();
  std::vector<size_t> parted_from;  // by new lane
  for (size_t engine = 0; engine < work_.size(); ++engine) {
    const size_t lane = lane_of_[engine];
    if (work_[engine] == work_[leaders_[lane]]) continue;
    size_t other = before;
    while (other < lanes_.size() &&
           (parted_from[other - before] != lane || work_[leaders_[other]] != work_[engine])) {
      ++other;
    }
    if (other == lanes_.size()) {
      lanes_.push_back(Lane(lanes_[lane]));
      leaders_.push_back(engine);
      parted_from.push_back(lane);
    }
    lane_of_[engine] = other;
  }
}

double EngineLanes::reserve(double from) {
  part();
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

// Half of the queues load, a quarter stores, the rest spills (8, 4 and 4 of 16). Assumed: the
// published profiles name queues for these purposes and not how many there are of each.
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

// What the transfer is for each engine.
void DmaSystem::plan(const Transfer& t) {
  std::vector<double>& work = engines_.work();
  std::fill(work.begin(), work.end(), 0.0);
  int64_t priced = 0;
  double ns = 0;
  // Summed in registers: a write to `work` might change a member, for all that the compiler knows.
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

// Queues of a class take turns. A queue issues in order, at most one transfer per issue interval,
// and keeps `dma_depth` of them in flight: queue.ends[queue.at] is when the oldest of those is
// done.
TransferTimes DmaSystem::submit(Class queues, double ready, const Transfer& t) {
  QueueRange& range = ranges_[static_cast<size_t>(queues)];
  TransferTimes times;
  times.queue = range.first + range.next;
  range.next = (range.next + 1) % range.count;
  Queue& queue = queues_[static_cast<size_t>(times.queue)];
  if (t.software) {
    ready = std::max(ready, descriptors_written_) + device_.dma_software_ns;
    descriptors_written_ = ready;
  }
  times.issue = std::max({ready, queue.last_issue + device_.dma_issue_ns, queue.ends[queue.at]});
  times.data_begin = times.issue + device_.dma_start_ns;
  // The engines move their parts side by side, and all of them share the core's HBM bandwidth,
  // which is a lane like theirs. The slowest decides when the last byte has moved.
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

// A lane knows how large the holes of a slot are but not where they lie, so that the union of the
// transfers can fall short of what an engine does in them.
double DmaSystem::active_time() const { return std::max(active_.length(), engines_.busiest()); }

}  // namespace neuronmm::simulator
