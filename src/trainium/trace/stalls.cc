#include "trainium/trace/stalls.h"

#include <algorithm>
#include <tuple>

namespace neuronmm::trace {

using simulator::Run;
using simulator::Unit;

namespace {

constexpr uint32_t kUnitNumbers = 8;
static_assert(simulator::kNumEngines < kUnitNumbers);

}  // namespace

std::string_view cause_name(Cause cause) {
  constexpr std::array<std::string_view, kCauses> kNames = {"data",       "bank",  "rotation",
                                                            "dependency", "issue", "table"};
  return kNames[static_cast<size_t>(cause)];
}

StallLog::StallLog(size_t lines, int64_t instructions)
    : lines_(lines), links_(static_cast<size_t>(instructions)) {}

void StallLog::record(uint32_t instruction, uint32_t line, uint32_t subject, const Run& run,
                      const Wait& wait) {
  LineStalls& stalls = lines_[line];
  ++stalls.instructions;
  stalls.busy_ns += run.end - run.begin;
  const double waited = wait.ns - run.table_ns;
  if (waited > 0) stalls.waited_ns[static_cast<size_t>(wait.cause)] += waited;
  stalls.waited_ns[static_cast<size_t>(Cause::kTable)] += run.table_ns;
  const Cause cause = run.table_ns > 0 && run.table_ns > waited ? Cause::kTable : wait.cause;
  Link& link = links_[instruction];
  link.begin = run.begin;
  link.earlier = wait.earlier;
  link.subject = subject;
  link.tensor_and_unit = wait.tensor * kUnitNumbers + static_cast<uint32_t>(run.unit);
  link.line_and_cause = line * static_cast<uint32_t>(kCauses) + static_cast<uint32_t>(cause);
  if (run.visible > end_) {
    end_ = run.visible;
    last_ = instruction;
  }
}

// The time between the begins of two linked instructions belongs to the earlier one, under the
// cause of the later one's wait. The time before the first one belongs to it as well.
template <typename Visit>
void StallLog::walk(const Visit& visit) const {
  double until = end_;
  Cause cause = Cause::kDependency;  // The kernel waits for the result of its last instruction.
  uint32_t tensor = ChainPart::kNoTensor;
  for (uint32_t at = last_; at != kNoInstruction; at = links_[at].earlier) {
    const Link& link = links_[at];
    visit(link, cause, tensor, until - link.begin);
    until = link.begin;
    cause = static_cast<Cause>(link.line_and_cause % kCauses);
    tensor = link.tensor_and_unit / kUnitNumbers;
    if (link.earlier == kNoInstruction) visit(link, cause, tensor, until);
  }
}

std::vector<LineStalls> StallLog::lines() const {
  std::vector<LineStalls> out = lines_;
  walk([&out](const Link& link, Cause cause, uint32_t, double ns) {
    out[link.line_and_cause / kCauses].stalled_ns[static_cast<size_t>(cause)] += ns;
  });
  return out;
}

std::map<uint32_t, double> StallLog::charged() const {
  std::map<uint32_t, double> out;
  walk([&out](const Link& link, Cause, uint32_t, double ns) { out[link.subject] += ns; });
  return out;
}

std::vector<ChainPart> StallLog::chain() const {
  std::map<std::tuple<Cause, Unit, uint32_t>, double> sums;
  walk([&sums](const Link& link, Cause cause, uint32_t tensor, double ns) {
    sums[{cause, static_cast<Unit>(link.tensor_and_unit % kUnitNumbers), tensor}] += ns;
  });
  std::vector<ChainPart> parts;
  for (const auto& [key, ns] : sums) {
    parts.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), ns});
  }
  std::ranges::stable_sort(parts, std::greater(), &ChainPart::ns);
  return parts;
}

Predecessors::Predecessors(const simulator::DeviceSpec& device)
    : issue_ns_(device.dma_issue_ns), queues_(static_cast<size_t>(device.dma_queues)) {
  engines_.fill(StallLog::kNoInstruction);
  for (Ring& queue : queues_) {
    queue.flying.resize(static_cast<size_t>(device.dma_depth), {-1e18, StallLog::kNoInstruction});
  }
}

void Predecessors::engine(uint32_t instruction, Unit unit) {
  engines_[static_cast<size_t>(unit)] = instruction;
  port_ = instruction;
}

Predecessors::Queue Predecessors::queue(int number) const {
  const Ring& ring = queues_[static_cast<size_t>(number)];
  const Issued& oldest = ring.flying[ring.at];
  const double next = ring.issue + issue_ns_;
  return oldest.end > next ? Queue{oldest.end, oldest.instruction} : Queue{next, ring.instruction};
}

void Predecessors::transfer(uint32_t instruction, const Run& run) {
  Ring& ring = queues_[static_cast<size_t>(run.queue)];
  ring.issue = run.begin;
  ring.instruction = instruction;
  ring.flying[ring.at] = {run.end, instruction};
  ring.at = (ring.at + 1) % ring.flying.size();
  recent_[next_recent_] = {run.begin, instruction};
  next_recent_ = (next_recent_ + 1) % kRemembered;
}

uint32_t Predecessors::transfer_before(double time) const {
  const Issued* best = nullptr;
  for (const Issued& each : recent_) {
    if (each.instruction == StallLog::kNoInstruction || each.end > time) continue;
    if (!best || each.end > best->end) best = &each;
  }
  return best ? best->instruction : StallLog::kNoInstruction;
}

}  // namespace neuronmm::trace
