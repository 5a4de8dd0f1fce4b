#include "trainium/simulator/residency.h"

#include <algorithm>
#include <optional>

#include "trainium/simulator/regions.h"

namespace neuronmm::simulator {

namespace {

using tile::Allocate;
using tile::Buffer;
using tile::BufferId;
using tile::DmaCopy;
using tile::Instruction;
using tile::Loop;
using tile::Memory;
using tile::MemoryUse;
using tile::Node;
using tile::Program;

constexpr double kMiB = 1024.0 * 1024.0;
constexpr int64_t kPartitions = 128;

// Returns what a buffer takes at the peak, or 0 if it is not live there.
int64_t share_of(const MemoryUse& use, BufferId buffer) {
  for (const tile::MemoryShare& share : use.live) {
    if (share.buffer == buffer) return share.amount;
  }
  return 0;
}

std::string mebibytes(int64_t per_partition) {
  return fmt::format("{:.2f} MiB", static_cast<double>(per_partition * kPartitions) / kMiB);
}

// Returns true if an instruction of the node accesses the buffer.
bool touches(const Node& node, BufferId buffer) {
  bool found = false;
  const auto look = [&](const Instruction& instruction) {
    for_each_access(instruction.operation, [&](const tile::Access& access, bool) {
      found = found || access.buffer == buffer;
    });
  };
  if (const auto* instruction = std::get_if<Instruction>(&node)) look(*instruction);
  if (const auto* loop = std::get_if<Loop>(&node)) for_each_instruction(loop->body, look);
  return found;
}

// Returns true if the node loads `buffer` from HBM and does nothing else.
bool only_loads(const Program& program, const Node& node, BufferId buffer) {
  int64_t loads = 0, others = 0;
  const auto look = [&](const Instruction& instruction) {
    const auto* copy = std::get_if<DmaCopy>(&instruction.operation);
    const bool load = copy && copy->dst.buffer == buffer &&
                      program.buffer(copy->src.buffer).memory == Memory::kHbm;
    ++(load ? loads : others);
  };
  if (const auto* instruction = std::get_if<Instruction>(&node)) look(*instruction);
  if (const auto* loop = std::get_if<Loop>(&node)) for_each_instruction(loop->body, look);
  return loads > 0 && others == 0;
}

// Returns true if the loop loads something into SBUF. A load may sink only into such a loop: the
// loop waits for DMA anyway, and the published profiles show one more load per iteration.
bool loads_into_sbuf(const Program& program, const Loop& loop) {
  bool found = false;
  for_each_instruction(loop.body, [&](const Instruction& instruction) {
    const auto* copy = std::get_if<DmaCopy>(&instruction.operation);
    found = found || (copy && program.buffer(copy->src.buffer).memory == Memory::kHbm &&
                      program.buffer(copy->dst.buffer).memory == Memory::kSbuf);
  });
  return found;
}

// A load and the loop that it can sink into: the list of nodes that holds both, and their indices
// in it.
struct Sink {
  std::vector<Node>* body = nullptr;
  size_t allocate = 0, loads_end = 0, loop = 0;
};

// Finds the loop that the loads of a buffer can sink into. The loads must stand directly after the
// buffer's allocation, and the allocation must stand in a sequential loop (`carried`). The first
// node that uses the buffer must be a loop that loads other things.
std::optional<Sink> find_sink(const Program& program, std::vector<Node>& body, BufferId buffer,
                              bool carried = false) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (auto* loop = std::get_if<Loop>(&body[i])) {
      if (auto sink = find_sink(program, loop->body, buffer, loop->carried)) return sink;
      continue;
    }
    const auto* allocate = std::get_if<Allocate>(&body[i]);
    if (!allocate || allocate->buffer != buffer) continue;
    size_t end = i + 1;
    while (end < body.size() && only_loads(program, body[end], buffer)) ++end;
    if (!carried || end == i + 1) return std::nullopt;
    for (size_t use = end; use < body.size(); ++use) {
      if (!touches(body[use], buffer)) continue;
      const auto* loop = std::get_if<Loop>(&body[use]);
      if (!loop || !loads_into_sbuf(program, *loop)) return std::nullopt;
      return Sink{&body, i, end, use};
    }
  }
  return std::nullopt;
}

// Moves the allocation and its loads to the begin of the loop. The buffer then lives for one
// iteration and is loaded once per iteration.
void apply(const Sink& sink) {
  std::vector<Node>& body = *sink.body;
  const auto first = body.begin() + static_cast<std::ptrdiff_t>(sink.allocate);
  const auto last = body.begin() + static_cast<std::ptrdiff_t>(sink.loads_end);
  std::vector<Node> moved(std::make_move_iterator(first), std::make_move_iterator(last));
  auto& inner = std::get<Loop>(body[sink.loop]).body;
  inner.insert(inner.begin(), std::make_move_iterator(moved.begin()),
               std::make_move_iterator(moved.end()));
  body.erase(first, last);
}

// Returns true if HBM holds everything in the buffer unchanged, so that it can be loaded again at
// any time.
bool is_loaded(const Program& program, BufferId buffer) {
  bool loaded = false, computed = false;
  for_each_instruction(program.body, [&](const Instruction& instruction) {
    const auto* copy = std::get_if<DmaCopy>(&instruction.operation);
    for_each_access(instruction.operation, [&](const tile::Access& access, bool writes) {
      if (access.buffer != buffer || !writes) return;
      const bool load = copy && program.buffer(copy->src.buffer).memory == Memory::kHbm;
      (load ? loaded : computed) = true;
    });
  });
  return loaded && !computed;
}

// Returns true if a compute engine adds to the buffer. Its content then outlives an iteration and
// exists nowhere else.
bool holds_sums(const Program& program, BufferId buffer) {
  bool sums = false;
  for_each_instruction(program.body, [&](const Instruction& instruction) {
    const auto* op = std::get_if<tile::TensorTensor>(&instruction.operation);
    const auto* scaled = std::get_if<tile::ScaleAdd>(&instruction.operation);
    sums = sums ||
           (op && op->dst.buffer == buffer && (op->a.buffer == buffer || op->b.buffer == buffer)) ||
           (scaled && scaled->dst.buffer == buffer && scaled->addend.buffer == buffer);
  });
  return sums;
}

// The remedy that is tried first if buffers remain too large.
enum class Overflow { kSpills, kStreams };

class Remedies {
 public:
  Remedies(Residency& plan, Overflow preferred)
      : plan_(plan), program_(plan.program), preferred_(preferred) {
    for (const Buffer& b : program_.buffers) free_bytes_.push_back(b.free_bytes());
  }

  bool find() {
    // Every round makes the buffers of the worst peak fit, until no peak exceeds the capacity.
    while (true) {
      const MemoryUse worst = tile::sbuf_use(program_, free_bytes_);
      if (worst.peak <= plan_.capacity) return true;
      if (!relieve(worst)) return false;
    }
  }

 private:
  // Makes the buffers of one peak fit by the first remedy of residency.h that suffices. Streaming
  // replaces the earlier remedies instead of adding to them, so it starts from the program as it
  // was before this peak.
  bool relieve(const MemoryUse& peak) {
    members_.assign(program_.buffers.size(), false);
    for (const auto& [b, bytes] : peak.live) members_[static_cast<size_t>(b)] = true;
    const Residency as_written = plan_;
    if (sink_loads(), fits()) return true;
    const std::vector<BufferId> dropped = drop_rotation();
    if (fits()) {
      use_free_memory(dropped);
      return true;
    }
    const Residency sunk = plan_;
    if (preferred_ == Overflow::kSpills && spill_sums()) return true;
    plan_ = as_written;
    if (stream_largest_load()) return true;
    plan_ = sunk;
    return preferred_ == Overflow::kStreams && spill_sums();
  }

  // Returns the peak of the members' memory.
  MemoryUse use() const {
    std::vector<int64_t> bytes = free_bytes_;
    for (size_t b = 0; b < bytes.size(); ++b) bytes[b] = members_[b] ? bytes[b] : 0;
    return tile::sbuf_use(program_, bytes);
  }
  bool fits() const { return use().peak <= plan_.capacity; }
  Buffer& buffer(BufferId b) { return program_.buffers[static_cast<size_t>(b)]; }

  // Sinks loads, the largest buffers first, and no more than necessary, because every sunk load
  // costs traffic. A sunk buffer is held only once, since more copies would take the memory back.
  void sink_loads() {
    const MemoryUse now = use();
    for (const auto& [b, bytes] : now.live) {
      const auto sink = find_sink(program_, program_.body, b);
      if (fits() || !sink) continue;
      const auto& loop = std::get<Loop>((*sink->body)[sink->loop]);
      plan_.remedies.push_back(
          fmt::format("the load of {} sinks into the loop {}", buffer(b).name, loop.name));
      apply(*sink);
      buffer(b).copies = 1;
    }
  }

  // Holds every rotating buffer of the peak only once, which gives up fetching ahead.
  // use_free_memory() gives back what it can. Returns the buffers.
  std::vector<BufferId> drop_rotation() {
    std::vector<BufferId> dropped;
    const MemoryUse now = use();
    for (const auto& [b, bytes] : now.live) {
      if (bytes == 0 || buffer(b).copies == 1) continue;
      buffer(b).copies = 1;
      dropped.push_back(b);
    }
    return dropped;
  }

  // Shares out the free memory among the buffers that have lost their rotation, in proportion to
  // their size. A buffer gets one instance and a part of the next, at most two.
  void use_free_memory(const std::vector<BufferId>& dropped) {
    const MemoryUse now = use();
    int64_t dropped_bytes = 0;
    for (const BufferId b : dropped) dropped_bytes += share_of(now, b);
    if (dropped_bytes == 0) return;
    const double more =
        static_cast<double>(plan_.capacity - now.peak) / static_cast<double>(dropped_bytes);
    for (const BufferId b : dropped) {
      plan_.rotation[static_cast<size_t>(b)] = 1 + std::min(1.0, more);
      plan_.remedies.push_back(
          fmt::format("{} has room for {:.2f} instances", buffer(b).name, 1 + std::min(1.0, more)));
    }
  }

  // Returns the memory that the other buffers of the peak leave to this one.
  int64_t free_bytes_for(BufferId b) const {
    const MemoryUse now = use();
    return plan_.capacity - (now.peak - share_of(now, b));
  }

  // Streams the largest buffer that can be loaded again at any time. Its tiles are loaded when they
  // are used, through a window in the memory that the other buffers leave. The others stop rotating
  // if the window would be too small.
  bool stream_largest_load() {
    const MemoryUse now = use();
    for (const auto& [b, bytes] : now.live) {
      if (bytes == 0 || !is_loaded(program_, b)) continue;
      // Assumed: a window below a quarter of the buffer would load tiles more than once within one
      // use of the buffer. No published profile shows that.
      const int64_t least = buffer(b).free_bytes() / 4;
      if (free_bytes_for(b) < least) drop_rotation();
      const int64_t window = std::min(free_bytes_for(b), buffer(b).free_bytes());
      if (window < least) return false;
      buffer(b).copies = 1;
      add_partial({.buffer = b, .streams = true, .resident_bytes = 0, .staging_bytes = window});
      plan_.remedies.push_back(fmt::format("{} ({}) streams through {}", buffer(b).name,
                                           mebibytes(bytes), mebibytes(window)));
      return true;
    }
    return false;
  }

  // Spills the largest buffer of sums that is worth it. The part that fits stays. The rest goes to
  // HBM and back at every visit. Sums exist nowhere else, so they must be saved, not only loaded
  // again.
  bool spill_sums() {
    const MemoryUse now = use();
    for (const auto& [b, bytes] : now.live) {
      if (!holds_sums(program_, b)) continue;
      const int64_t free_bytes = plan_.capacity - (now.peak - bytes);
      // Assumed: spilling is not worth it if less than a sixteenth of the buffer would stay.
      if (free_bytes < bytes / 16) continue;
      // The staging area holds what one iteration visits twice: once in use and once in transfer.
      // It takes at most a quarter of the memory, so that most of the memory holds resident sums.
      const int64_t staging = std::min(2 * visit_bytes(now, b), free_bytes / 4);
      const int64_t resident = free_bytes - staging;
      add_partial({b, false, resident, staging});
      plan_.remedies.push_back(fmt::format("{} of the {} of {} are spilled",
                                           mebibytes(bytes - resident), mebibytes(bytes),
                                           buffer(b).name));
      return true;
    }
    return false;
  }

  // Returns what one iteration visits of the spilled sums, in bytes per partition. A kernel's
  // loaded blocks are as large as the blocks of sums that it visits with them, so the largest of
  // them is the estimate. One eviction adds one PSUM bank (2 KiB), which is the least.
  int64_t visit_bytes(const MemoryUse& now, BufferId spilled) const {
    int64_t largest = 2048;
    for (const auto& [b, bytes] : now.live) {
      if (b == spilled || bytes == 0) continue;
      largest = std::max(largest, program_.buffer(b).free_bytes());
    }
    return largest;
  }

  void add_partial(const PartialBuffer& partial) {
    plan_.partials.push_back(partial);
    free_bytes_[static_cast<size_t>(partial.buffer)] =
        partial.resident_bytes + partial.staging_bytes;
  }

  Residency& plan_;
  Program& program_;
  Overflow preferred_;
  std::vector<int64_t> free_bytes_;  // The bytes of one instance of each buffer.
  std::vector<bool> members_;        // Whether each buffer belongs to the present peak.
};

}  // namespace

tile::Limits limits_of(const DeviceSpec& device) {
  return {.device = std::string(device.name),
          .sbuf_bytes_per_partition_usable = static_cast<int64_t>(device.sbuf_capacity()),
          .psum_banks = static_cast<int64_t>(device.psum_banks),
          .psum_bank_bytes = static_cast<int64_t>(device.psum_bank_bytes)};
}

// Describes a program that is too large: the memory of each buffer where most is live.
std::string describe(const Program& program, const MemoryUse& use) {
  std::string text = mebibytes(use.peak) + ":";
  for (size_t i = 0; i < use.live.size(); ++i) {
    const Buffer& buffer = program.buffer(use.live[i].buffer);
    text += fmt::format("{} {} {}", i == 0 ? "" : " +", buffer.name, mebibytes(use.live[i].amount));
    if (buffer.copies > 1) text += fmt::format(" ({} copies)", buffer.copies);
  }
  return text;
}

namespace {

Residency as_written(const Program& program, const DeviceSpec& device) {
  return {.program = program,
          .rotation = {},
          .partials = {},
          .wanted = tile::sbuf_use(program),
          .capacity = static_cast<int64_t>(device.sbuf_capacity()),
          .remedies = {}};
}

// Returns nothing if no remedy suffices.
std::optional<Residency> with_remedies(Residency plan, Overflow preferred) {
  plan.rotation.resize(plan.program.buffers.size(), 0);
  if (!Remedies(plan, preferred).find()) return std::nullopt;
  // Buffers that no remedy has changed rotate as the program says.
  for (size_t b = 0; b < plan.rotation.size(); ++b) {
    const auto copies = static_cast<double>(plan.program.buffers[b].copies);
    plan.rotation[b] = std::max(plan.rotation[b], copies);
  }
  return plan;
}

bool spills(const Residency& plan) {
  return std::any_of(plan.partials.begin(), plan.partials.end(),
                     [](const PartialBuffer& partial) { return !partial.streams; });
}

}  // namespace

// PSUM has no remedies. It holds results only until they are evicted, and the compiler spills
// nothing from it.
Result<std::vector<Residency>> make_resident(const Program& program, const DeviceSpec& device) {
  const MemoryUse psum = tile::psum_use(program, static_cast<int64_t>(device.psum_bank_bytes));
  if (static_cast<double>(psum.peak) > device.psum_banks) {
    return fail("{}: PSUM needs {} banks; {} has {}", program.name, psum.peak, device.name,
                device.psum_banks.value);
  }
  const Residency wanted = as_written(program, device);
  std::optional<Residency> spilling = with_remedies(wanted, Overflow::kSpills);
  if (!spilling) {
    return fail(
        "{}: SBUF needs {}; {} usable on {}, and nothing of it can be spilled or loaded later",
        program.name, describe(program, wanted.wanted), mebibytes(wanted.capacity), device.name);
  }
  std::vector<Residency> plans = {std::move(*spilling)};
  if (!spills(plans.front())) return plans;
  std::optional<Residency> streaming = with_remedies(wanted, Overflow::kStreams);
  if (streaming && !spills(*streaming)) plans.push_back(std::move(*streaming));
  return plans;
}

}  // namespace neuronmm::simulator
