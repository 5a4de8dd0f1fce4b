#include "trainium/trace/legacy_compiler.h"

#include <algorithm>
#include <utility>

#include "trainium/trace/dead_fills.h"
#include "trainium/trace/instruction_list.h"
#include "trainium/trace/list_schedule.h"
#include "trainium/trace/live_memory.h"
#include "trainium/trace/psum_overflow.h"
#include "trainium/trace/redundancy.h"
#include "trainium/trace/vectorize.h"

namespace neuronmm::trace {

namespace {

using simulator::DeviceSpec;
using tile::Memory;

// Returns whether the tensors fit into SBUF and PSUM. A pass must not make a kernel that fits too
// large.
bool fits_on_chip(const TraceFile& file, const Contents& contents, const DeviceSpec& device) {
  const auto bank = static_cast<int64_t>(device.psum_bank_bytes);
  const auto bytes = [&](Memory memory) {
    return static_cast<double>(live_peak(file.header(), contents, memory, bank).bytes);
  };
  return bytes(Memory::kPsum) <= device.psum_banks * device.psum_bank_bytes &&
         bytes(Memory::kSbuf) <= device.sbuf_usable_bytes;
}

void reorder(InstructionList& list, const std::vector<uint32_t>& order) {
  std::vector<ListedInstruction> ordered;
  ordered.reserve(order.size());
  for (const uint32_t at : order) ordered.push_back(list.instructions[at]);
  list.instructions = std::move(ordered);
}

// Computes the lives of the tensors for a new order of the same instructions. Everything else in
// the contents stays.
void find_lives(const InstructionList& list, Contents& contents) {
  for (Instance& instance : contents.instances) {
    instance.first = Instance::kNever;
    instance.last = 0;
  }
  for (uint32_t now = 0; now < list.instructions.size(); ++now) {
    for (const OperandRecord& operand : list.operands_of(list.instructions[now])) {
      Instance& root = contents.instances[contents.instances[operand.instance].root];
      root.first = std::min(root.first, now);
      root.last = now;
    }
  }
}

}  // namespace

Result<Compiled> compile_legacy(const TraceFile& file, Contents contents,
                                const DeviceSpec& device) {
  InstructionList list = list_instructions(file);
  TraceFile before = file;
  const auto bank = static_cast<int64_t>(device.psum_bank_bytes);
  const auto psum = static_cast<int64_t>(device.psum_banks) * bank;
  const int64_t moved = live_peak(list.header, contents, Memory::kPsum, bank).bytes > psum
                            ? move_out_of_psum(list, contents, psum, bank)
                            : 0;
  if (moved > 0) {
    before = to_trace(list);
    NMM_ASSIGN(contents, check_contents(before));
  }
  const int64_t fills = drop_dead_fills(list, contents);
  const Redundancy redundancy = drop_redundant(list, contents);
  if (fills + redundancy.repeated + redundancy.unread > 0) {
    before = to_trace(list);
    NMM_ASSIGN(contents, check_contents(before));
  }
  int64_t merged = 0;
  if (!list.loops.empty()) {
    InstructionList wide = list;
    merged = vectorize(wide, contents);
    if (merged > 0) {
      TraceFile vectorized = to_trace(wide);
      NMM_ASSIGN(Contents after, check_contents(vectorized));
      if (fits_on_chip(vectorized, after, device) || !fits_on_chip(before, contents, device)) {
        list = std::move(wide);
        before = std::move(vectorized);
        contents = std::move(after);
      } else {
        merged = 0;
      }
    }
  }
  NMM_ASSIGN(const std::vector<uint32_t> order, list_schedule(list, contents, device));
  reorder(list, order);
  find_lives(list, contents);
  std::string note = fmt::format(
      "scheduled as the legacy compiler might: {} instructions of parallel loops went into merged "
      "ones, {} repeat others, {} compute what nobody reads, {} fill what is written over, {} "
      "tiles "
      "that PSUM has no room for are in SBUF (--as-written: the program's order)",
      merged, redundancy.repeated, redundancy.unread, fills, moved);
  return Compiled{to_trace(list), std::move(contents), before.shared_header(), std::move(note)};
}

}  // namespace neuronmm::trace
