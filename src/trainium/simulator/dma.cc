#include "trainium/simulator/dma.h"

#include <algorithm>
#include <cmath>

namespace neuronmm::simulator {

Lane::Slot& Lane::slot(int64_t index) {
  while (newest_ < index) slots_[static_cast<size_t>(++newest_ % kSlots)] = {};
  return slots_[static_cast<size_t>(index % kSlots)];
}

double Lane::reserve(double from, double duration) {
  busy_ += duration;
  constexpr float kFull = static_cast<float>(kSlot);
  int64_t index = std::max(static_cast<int64_t>(from / kSlot), newest_ - kSlots + 1);
  index = std::max<int64_t>(index, 0);
  double position = std::clamp(from - static_cast<double>(index) * kSlot, 0.0, kSlot);
  double left = duration, end = from;
  while (left > 0) {
    if (index >= full_begin_ && index < full_end_) {
      index = full_end_;
      position = 0;
    }
    Slot& s = slot(index);
    const auto take = [&](double room, double at) {
      const double taken = std::clamp(room, 0.0, left);
      left -= taken;
      s.busy += static_cast<float>(taken);
      end = static_cast<double>(index) * kSlot + at + taken;
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
      const double holes = static_cast<double>(s.end - s.begin - s.busy);
      if (left > 0 && holes > 0.01 && position < s.end) {
        take(std::min(holes, s.end - position), std::max<double>(position, s.begin));
      }
      const double tail = std::max<double>(s.end, position);
      if (left > 0 && tail < kSlot) s.end = take(kSlot - tail, tail);
    }
    if (s.busy >= kFull - 0.02f) {
      if (index == full_end_) {
        ++full_end_;
      } else if (index > full_end_) {
        full_begin_ = index;
        full_end_ = index + 1;
      }
    }
    ++index;
    position = 0;
  }
  return end;
}

double engine_ns(const DeviceSpec& device, const Transfer& t, int64_t partitions) {
  const double chunks = std::ceil(static_cast<double>(t.bytes_per_partition) /
                                  static_cast<double>(std::max<int64_t>(t.chunk_bytes, 1)));
  const double chunk_bytes = static_cast<double>(t.bytes_per_partition) / chunks;
  const double rate = device.dma_bandwidth * (t.transposes ? device.dma_transpose_rate : 1.0);
  const double chunk_ns =
      std::max<double>(device.dma_descriptor_floor, chunk_bytes / rate + device.dma_descriptor_ns);
  return device.dma_transfer_ns + static_cast<double>(partitions) * chunks * chunk_ns;
}

int DmaSystem::num_queues(Class queues, int all) {
  if (queues == Class::kLoad) return all / 2;
  return queues == Class::kStore ? all / 4 : all - all / 2 - all / 4;
}

DmaSystem::DmaSystem(const DeviceSpec& device)
    : device_(device), engines_(static_cast<size_t>(device.dma_engines)) {
  const int queues = static_cast<int>(device.dma_queues);
  queues_.resize(static_cast<size_t>(queues));
  for (Queue& queue : queues_) queue.ends.assign(static_cast<size_t>(device.dma_depth), -1e18);
  int first = 0;
  for (const Class c : {Class::kLoad, Class::kStore, Class::kSpill}) {
    ranges_[static_cast<size_t>(c)] = {first, num_queues(c, queues)};
    first += num_queues(c, queues);
  }
}

TransferTimes DmaSystem::submit(Class queues, double ready, const Transfer& t) {
  QueueRange& range = ranges_[static_cast<size_t>(queues)];
  TransferTimes times;
  times.queue = range.first + range.next;
  range.next = (range.next + 1) % range.count;
  Queue& queue = queues_[static_cast<size_t>(times.queue)];
  times.issue = std::max({ready, queue.last_issue + device_.dma_issue_ns, queue.ends[queue.at]});
  times.data_begin = times.issue + device_.dma_start_ns;
  const double bytes = static_cast<double>(t.bytes());
  times.data_end = hbm_.reserve(times.data_begin, bytes / device_.hbm_bandwidth);
  for_each_engine(t, [&](size_t engine, int64_t partitions) {
    const double ns = engine_ns(device_, t, partitions);
    times.data_end = std::max(times.data_end, engines_[engine].reserve(times.data_begin, ns));
  });
  times.visible = times.data_end + device_.dma_completion_ns;
  queue.last_issue = times.issue;
  queue.ends[queue.at] = times.data_end;
  queue.at = (queue.at + 1) % queue.ends.size();
  ++transfers_;
  note_active(times.data_begin, times.data_end);
  return times;
}

// Transfers come in program order, nearly in time order: one that begins before the last one ended
// adds only what lies beyond.
void DmaSystem::note_active(double begin, double end) {
  active_time_ += std::max(0.0, end - std::max(begin, active_end_));
  active_end_ = std::max(active_end_, end);
}

double DmaSystem::engine_time() const {
  double total = 0;
  for (const Lane& engine : engines_) total += engine.busy();
  return total;
}

}  // namespace neuronmm::simulator
