#include "trainium/trace/list_schedule.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <utility>

#include "trainium/trace/dependences.h"
#include "trainium/trace/memory_budget.h"
#include "trainium/trace/price_cache.h"

namespace neuronmm::trace {

namespace {

using simulator::DeviceSpec;
using simulator::EngineCost;
using simulator::Kind;

// The engines that may run an instruction, one bit each. Numbers below 32 are sets of them.
enum Runner : uint8_t { kTensor = 1, kVector = 2, kScalar = 4, kGpSimd = 8, kDma = 16 };
constexpr size_t kRunnerSets = 32, kRunners = 5;

class Scheduler {
 public:
  Scheduler(const InstructionList& list, const Contents& contents, const DeviceSpec& device,
            const ScheduleOptions& options)
      : list_(list),
        contents_(contents),
        device_(device),
        options_(options),
        prices_(list.header, contents.accesses, device),
        budget_(list, contents, device),
        tasks_(list.instructions.size()) {}

  Result<std::vector<uint32_t>> run() {
    NMM_TRY(find_prices());
    link();
    order_.reserve(tasks_.size());
    advance_window();
    while (order_.size() < tasks_.size()) {
      const uint32_t next = choose();
      if (next == kNone) continue;  // The chosen instruction did not fit and waits.
      issue(next);
    }
    return std::move(order_);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  enum class State : uint8_t { kWaiting, kReady, kBlocked, kDone };
  struct Task {
    const Priced* priced = nullptr;
    double ready = 0;              // When its operands are ready.
    uint32_t num_unmet = 0;        // Dependences that are not met.
    uint32_t first_successor = 0;  // An index in successors_.
    State state = State::kWaiting;
    uint8_t runners = 0;
  };
  struct Successor {
    uint32_t to = 0;
    Wait wait = Wait::kVisible;
  };
  using Timed = std::pair<double, uint32_t>;
  template <typename T>
  using MinQueue = std::priority_queue<T, std::vector<T>, std::greater<T>>;
  // Ready instructions that the same engines may run. `now` holds those whose operands are ready
  // when the engine is free, `later` the others.
  struct Ready {
    MinQueue<uint32_t> now;
    MinQueue<Timed> later;
  };

  Status find_prices() {
    std::vector<uint32_t> forms;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const ListedInstruction& instruction = list_.instructions[i];
      const Operation& operation = list_.operation(instruction);
      const auto operands = list_.operands_of(instruction);
      forms.clear();
      for (size_t o = 0; o < operands.size(); ++o) {
        forms.push_back(contents_.access(operands[o], operation.has_run_time_index[o]).form);
      }
      auto priced = prices_.find(instruction.operation, forms);
      if (!priced.ok()) {
        return fail("{}: {}: {}", list_.name, list_.header.location(instruction.source),
                    priced.error().message);
      }
      tasks_[i].priced = *priced;
      tasks_[i].runners = runners(**priced);
    }
    return {};
  }

  static uint8_t runners(const Priced& priced) {
    const simulator::Job& job = priced.job;
    if (job.kind == Kind::kDma) return kDma;
    if (job.kind == Kind::kMatmul || job.kind == Kind::kTranspose) return kTensor;
    const int set = (job.on_vector ? kVector : 0) | (job.on_scalar ? kScalar : 0) |
                    (job.on_gpsimd ? kGpSimd : 0);
    return static_cast<uint8_t>(set == 0 ? kDma : set);  // No engine runs it, so it takes no time.
  }

  void link() {
    const std::vector<Dependence> dependences = find_dependences(list_, contents_);
    for (const Dependence& dependence : dependences) {
      ++tasks_[dependence.from].first_successor;
      ++tasks_[dependence.to].num_unmet;
    }
    uint32_t at = 0;
    for (Task& task : tasks_) at += std::exchange(task.first_successor, at);
    successors_.resize(dependences.size());
    std::vector<uint32_t> next(tasks_.size());
    for (size_t i = 0; i < tasks_.size(); ++i) next[i] = tasks_[i].first_successor;
    for (const Dependence& d : dependences) {
      // An engine's own earlier write needs no wait because the engine works in order.
      const bool same = tasks_[d.from].runners == kTensor && tasks_[d.to].runners == kTensor;
      const bool in_order = same && d.wait == Wait::kVisible && writes_again(d);
      successors_[next[d.from]++] = {d.to, in_order ? Wait::kRead : d.wait};
    }
  }
  // Returns whether both instructions write the same tensor, as a product that is added to the
  // previous one does.
  bool writes_again(const Dependence& d) const {
    return list_.operands_of(list_.instructions[d.from])[0].instance ==
           list_.operands_of(list_.instructions[d.to])[0].instance;
  }
  std::span<const Successor> successors(uint32_t task) const {
    const size_t end =
        task + 1 < tasks_.size() ? tasks_[task + 1].first_successor : successors_.size();
    return {successors_.data() + tasks_[task].first_successor, end - tasks_[task].first_successor};
  }

  // Moves the window, which begins at the first instruction that is not scheduled.
  void advance_window() {
    while (oldest_ < tasks_.size() && tasks_[oldest_].state == State::kDone) ++oldest_;
    const size_t end = std::min<size_t>(tasks_.size(), size_t{oldest_} + options_.window);
    for (; entered_ < end; ++entered_) {
      if (tasks_[entered_].num_unmet == 0) make_ready(static_cast<uint32_t>(entered_));
    }
  }
  void make_ready(uint32_t task) {
    tasks_[task].state = State::kReady;
    ready_[tasks_[task].runners].later.emplace(tasks_[task].ready, task);
  }

  double free_at(uint8_t set) const {
    double free = 1e300;
    for (size_t r = 0; r < kRunners; ++r) {
      if ((set >> r & 1) != 0) free = std::min(free, free_[r]);
    }
    return free;
  }
  // Returns when an instruction can start. Transfers wait only for their operands. On NeuronCore-v2
  // the engines share one port to PSUM.
  double start_of(uint32_t task) const {
    const Task& t = tasks_[task];
    if (t.runners == kDma) return t.ready;
    double start = std::max(free_at(t.runners), t.ready);
    if (t.runners != kTensor && t.priced->job.touches_psum && device_.psum_exclusive > 0) {
      start = std::max(start, port_free_);
    }
    return start;
  }

  // Returns the instruction that can begin first, or none if it does not fit into memory.
  uint32_t choose() {
    uint32_t best = kNone;
    double best_start = 0;
    for (uint8_t set = 1; set < kRunnerSets; ++set) {
      Ready& ready = ready_[set];
      if (ready.now.empty() && ready.later.empty()) continue;
      const double free = set == kDma ? 0 : free_at(set);
      while (!ready.later.empty() && ready.later.top().first <= free) {
        ready.now.push(ready.later.top().second);
        ready.later.pop();
      }
      const uint32_t task = ready.now.empty() ? ready.later.top().second : ready.now.top();
      const double start = start_of(task);
      if (best != kNone && (start > best_start || (start == best_start && task > best))) continue;
      best = task;
      best_start = start;
    }
    Ready& ready = ready_[tasks_[best].runners];
    if (ready.now.empty()) {
      ready.later.pop();
    } else {
      ready.now.pop();
    }
    MemoryBudget::Memory full = MemoryBudget::kSbuf;
    if (budget_.fits(best, tasks_[best].runners == kDma, oldest_, full)) return best;
    tasks_[best].state = State::kBlocked;
    blocked_[full].push(best);
    return kNone;
  }

  void issue(uint32_t task) {
    Task& t = tasks_[task];
    const auto [end, visible] = time(task);
    t.state = State::kDone;
    order_.push_back(task);
    const std::array<bool, 2> freed = budget_.run(task, oldest_);
    for (const Successor& next : successors(task)) {
      Task& later = tasks_[next.to];
      const double wait = next.wait == Wait::kVisible ? visible
                          : next.wait == Wait::kRead  ? end
                                                      : 0;
      later.ready = std::max(later.ready, wait);
      if (--later.num_unmet == 0 && next.to < entered_) make_ready(next.to);
    }
    const uint32_t oldest_before = oldest_;
    advance_window();
    for (size_t m = 0; m < 2; ++m) {
      if (freed[m] || oldest_ != oldest_before) unblock(m);
    }
  }

  // Makes the instructions ready that waited for memory, in the program's order, until one does not
  // fit.
  void unblock(size_t memory) {
    MinQueue<uint32_t>& blocked = blocked_[memory];
    while (!blocked.empty()) {
      const uint32_t task = blocked.top();
      MemoryBudget::Memory full = MemoryBudget::kSbuf;
      if (!budget_.fits(task, tasks_[task].runners == kDma, oldest_, full)) return;
      blocked.pop();
      make_ready(task);
    }
  }

  // Returns when the instruction ends, and when its result is visible.
  std::pair<double, double> time(uint32_t task) {
    const Task& t = tasks_[task];
    const Priced& priced = *t.priced;
    const double start = start_of(task);
    if (t.runners == kDma) return transfer(start, priced);
    if (t.runners == kTensor) {
      const simulator::TensorCost& cost = priced.job.tensor;
      free_[0] = start + cost.interval(priced.tensor.columns);
      return {free_[0], free_[0] + cost.latency_ns};
    }
    const std::array<const EngineCost*, 3> costs = {&priced.job.vector, &priced.job.scalar,
                                                    &priced.job.gpsimd};
    size_t best = 0;
    double end = 1e300;
    for (size_t r = 1; r < kRunners - 1; ++r) {
      if ((t.runners >> r & 1) == 0) continue;
      const double done = std::max(start, free_[r]) + costs[r - 1]->interval(priced.streamed);
      if (done < end) best = r, end = done;
    }
    free_[best] = end;
    if (priced.job.touches_psum) port_free_ = end;
    return {end, end + costs[best - 1]->latency_ns};
  }

  // Models a transfer. All transfers share the engines, and each engine moves an equal part.
  std::pair<double, double> transfer(double start, const Priced& priced) {
    if (priced.takes_no_time || priced.transfer.bytes() == 0) return {start, start};
    const auto engines = static_cast<int64_t>(device_.dma_engines);
    const int64_t parts = std::min(engines, priced.transfer.partitions);
    const int64_t each = (priced.transfer.partitions + engines - 1) / engines;
    const double unshared_ns = simulator::engine_ns(device_, priced.transfer, each);
    const double shared_ns =
        unshared_ns * static_cast<double>(parts) / static_cast<double>(engines);
    double& free = free_[kRunners - 1];
    const double begin = start + device_.dma_start_ns;
    free = std::max(free, begin) + shared_ns;
    const double end = std::max(free, begin + unshared_ns);
    return {end, end + device_.dma_completion_ns};
  }

  const InstructionList& list_;
  const Contents& contents_;
  const DeviceSpec& device_;
  const ScheduleOptions& options_;
  PriceCache prices_;
  MemoryBudget budget_;
  std::vector<Task> tasks_;
  std::vector<Successor> successors_;
  std::array<Ready, kRunnerSets> ready_;  // By the engines that may run them.
  std::array<MinQueue<uint32_t>, 2> blocked_;
  std::array<double, kRunners> free_{};  // For Tensor, Vector, Scalar, GpSimd and DMA.
  double port_free_ = 0;
  uint32_t oldest_ = 0;
  size_t entered_ = 0;
  std::vector<uint32_t> order_;
};

}  // namespace

Result<std::vector<uint32_t>> list_schedule(const InstructionList& list, const Contents& contents,
                                            const DeviceSpec& device,
                                            const ScheduleOptions& options) {
  return Scheduler(list, contents, device, options).run();
}

}  // namespace neuronmm::trace
