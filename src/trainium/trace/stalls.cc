#include "trainium/trace/stalls.h"

#include <algorithm>

namespace neuronmm::trace {

using simulator::Run;
using simulator::Unit;

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
  link.line_and_cause = line * static_cast<uint32_t>(kCauses) + static_cast<uint32_t>(cause);
  if (run.visible > end_) {
    end_ = run.visible;
    last_ = instruction;
  }
}

std::vector<LineStalls> StallLog::lines() const {
  std::vector<LineStalls> out = lines_;
  double until = end_;
  // The kernel waits for the result of its last instruction.
  auto cause = static_cast<size_t>(Cause::kDependency);
  for (uint32_t at = last_; at != kNoInstruction; at = links_[at].earlier) {
    const Link& link = links_[at];
    LineStalls& line = out[link.line_and_cause / kCauses];
    line.stalled_ns[cause] += until - link.begin;
    until = link.begin;
    cause = link.line_and_cause % kCauses;
    if (link.earlier == kNoInstruction) line.stalled_ns[cause] += until;
  }
  return out;
}

std::map<uint32_t, double> StallLog::charged() const {
  std::map<uint32_t, double> out;
  double until = end_;
  for (uint32_t at = last_; at != kNoInstruction; at = links_[at].earlier) {
    const Link& link = links_[at];
    const double begin = link.earlier == kNoInstruction ? 0 : link.begin;
    out[link.subject] += until - begin;
    until = begin;
  }
  return out;
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
