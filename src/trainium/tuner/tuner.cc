#include "trainium/tuner/tuner.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <tuple>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "trainium/simulator/residency.h"
#include "trainium/simulator/timing.h"
#include "trainium/tile/memory_use.h"
#include "trainium/tuner/cache.h"
#include "trainium/tuner/search_space.h"

namespace neuronmm::tuner {
namespace {

using kernels::Tiling;
using tile::Program;

// The number of tilings that are simulated before the bounds are compared again. It does not depend
// on the number of cores, so that every machine simulates the same tilings. Assumed: 16 keep the
// cores of most machines busy.
constexpr size_t kBatch = 16;
// The number of best tilings of each sub-kernel that are combined: 8 x 8 with two sub-kernels.
// Assumed: the search for neighbours finds what the combinations miss.
constexpr int64_t kBestOfSubKernel = 8;
constexpr double kNever = std::numeric_limits<double>::infinity();

// A tiling of the search space, with what is known about it so far.
struct Candidate {
  Tiling tiling;
  std::string name;
  bool fits = false;
  tile::MemoryUse sbuf;
  simulator::Bound bound;
  int64_t hbm_bytes = 0;
  bool simulated = false;
  double latency_ns = kNever;  // Finite once the simulation has run to its end.
};

// Returns true if `a` is better than `b`. All tilings that take no longer than `limit_ns` count as
// equally fast, and among them the fewest bytes win. Beyond the limit the shorter time wins.
bool is_better(const Candidate& a, const Candidate& b, double limit_ns) {
  const auto rank = [limit_ns](const Candidate& c) {
    const bool fast = c.latency_ns <= limit_ns;
    return std::tuple(!fast, fast ? static_cast<double>(c.hbm_bytes) : c.latency_ns, c.latency_ns,
                      c.hbm_bytes);
  };
  return rank(a) < rank(b);
}

// Searches the tilings of one problem and remembers every candidate.
class Search {
 public:
  Search(const Problem& problem, const TuneOptions& options, Trials trials)
      : p_(problem), options_(options), trials_(std::move(trials)) {}

  // Runs the search. The kernel's default is always simulated, because the result must not be
  // slower. A kernel of one part is searched as a whole. A kernel of several parts is searched part
  // by part, with the best values found so far for the other parts. This is repeated for every
  // setting of the parameters that belong to no part.
  Status run() {
    NMM_ASSIGN(const Tiling defaults, kernels::tiling_of(*p_.kernel, p_.chosen));
    default_ = tiling_text(defaults);
    NMM_TRY(search({defaults}));
    if (!p_.kernel->sub_kernels.empty()) return search_sub_kernels(defaults);
    // The search begins at a tiling that fits, because the other parts must leave enough memory
    // while one part is searched.
    NMM_ASSIGN(Tiling start, kernels::fitting_tiling(*p_.kernel, p_.shape, p_.options, p_.chosen,
                                                     simulator::limits_of(p_.device)));
    const std::vector<std::string_view> all_parts = parts(*p_.kernel);
    const bool whole = all_parts.front().empty();
    for (const Tiling& setting : whole ? std::vector{start} : combine(start, "")) {
      Tiling base = setting;
      for (const std::string_view part : all_parts) {
        NMM_TRY(search(combine(base, part)));
        if (const Candidate* best = best_with_setting(setting, whole)) base = best->tiling;
      }
    }
    return whole ? Status() : search_neighbours();
  }

  const Trials& trials() const { return trials_; }
  Result<Outcome> outcome() const;

 private:
  int64_t capacity() const {
    return simulator::limits_of(p_.device).sbuf_bytes_per_partition_usable;
  }
  std::vector<Tiling> combine(const Tiling& base, std::string_view part) const {
    return combinations(p_, base, part);
  }
  Program program(const Tiling& tiling) const {
    return *kernels::make_program(*p_.kernel, p_.shape, tiling, p_.options);
  }

  Status search(const std::vector<Tiling>& tilings);
  Status search_sub_kernels(const Tiling& defaults);
  Status search_neighbours();
  Result<Outcome> tune_sub_kernel(const kernels::SubKernel& sub_kernel) const;
  void examine(Candidate& candidate) const;
  void simulate(Candidate& candidate, Trial& trial) const;
  Status measure(std::vector<size_t> order);
  Status measure_within(double most_ns, std::vector<size_t> order, Progress& progress);
  void measure_batch(std::span<const size_t> batch, double longest);
  double longest_useful_ns() const;
  int64_t most_useful_bytes(double least_ns) const;
  double limit_ns(double least_ns = kNever) const;
  const Candidate* best_with_setting(const Tiling& setting, bool any) const;
  Rejection rejection_of(const Candidate& candidate, double limit) const;
  std::string explain(const Candidate& candidate, Rejection rejection) const;
  Error nothing_fits() const;
  Error stopped() const {
    return interrupted_error(fmt::format("{} tilings are measured", trials_.size()));
  }

  const Problem& p_;
  const TuneOptions& options_;
  Trials trials_;
  std::string default_;  // The kernel's default tiling.
  std::vector<Candidate> all_;
  // The names of all candidates. Parts are searched in turn and may meet a tiling again.
  std::set<std::string> names_;
};

// Combines the best tilings of the sub-kernels, which run one after the other. The combinations
// need not contain the best tiling of the whole kernel, because sub-kernels share SBUF and overlap.
Status Search::search_sub_kernels(const Tiling& defaults) {
  std::vector<Tiling> all = combine(defaults, "");
  for (const kernels::SubKernel& sub_kernel : p_.kernel->sub_kernels) {
    NMM_ASSIGN(const Outcome outcome, tune_sub_kernel(sub_kernel));
    std::vector<Tiling> more;
    for (const Tiling& tiling : all) {
      for (const Measurement& best : outcome.best) {
        more.push_back(tiling);
        for (const auto& [name, value] : best.tiling.values()) {
          more.back().set(std::string(sub_kernel.prefix) + name, value);
        }
      }
    }
    all = std::move(more);
  }
  NMM_TRY(search(all));
  return search_neighbours();
}

// Tries tilings that differ from the best one in one parameter, until none is better. This is
// useful because each part was searched with fixed values for the others.
Status Search::search_neighbours() {
  // The names whose neighbours were tried. The search stops when the best tiling is among them.
  std::set<std::string> expanded;
  for (const Candidate* best = best_with_setting({}, true);
       best && expanded.insert(best->name).second; best = best_with_setting({}, true)) {
    NMM_TRY(search(neighbours(p_, best->tiling)));
  }
  return {};
}

// Tunes a sub-kernel as a kernel of its own with a shape of its own. The result is cached like that
// of any kernel. The parameters that the caller has chosen for the sub-kernel carry its prefix.
Result<Outcome> Search::tune_sub_kernel(const kernels::SubKernel& sub_kernel) const {
  NMM_ASSIGN(const kernels::Kernel* kernel, kernels::find_kernel(sub_kernel.kernel));
  Problem problem{.kernel = kernel,
                  .shape = sub_kernel.shape(p_.shape),
                  .options = p_.options,
                  .device = p_.device,
                  .cores = p_.cores};
  for (const auto& [name, value] : p_.chosen) {
    if (!name.starts_with(sub_kernel.prefix)) continue;
    problem.chosen.emplace_back(name.substr(sub_kernel.prefix.size()), value);
  }
  TuneOptions options = options_;
  options.top = kBestOfSubKernel;
  return tune(problem, options);
}

// Computes what the program of one tiling needs at least, without simulating it.
void Search::examine(Candidate& candidate) const {
  const Program built = program(candidate.tiling);
  candidate.sbuf = tile::sbuf_use(built);
  candidate.fits = candidate.sbuf.peak <= capacity();
  candidate.hbm_bytes = p_.kernel->cost(p_.shape, candidate.tiling, p_.options).hbm_bytes();
  if (candidate.fits) candidate.bound = simulator::bound(built, p_.device);
}

Status Search::search(const std::vector<Tiling>& tilings) {
  const size_t first = all_.size();
  for (const Tiling& tiling : tilings) {
    std::string name = tiling_text(tiling);
    if (!names_.insert(name).second) continue;
    all_.emplace_back().tiling = tiling;
    all_.back().name = std::move(name);
  }
  parallel_for(static_cast<int64_t>(all_.size() - first), [&](int64_t i) {
    if (!interrupted()) examine(all_[first + static_cast<size_t>(i)]);
  });
  if (interrupted()) return stopped();
  std::vector<size_t> order;
  for (size_t i = first; i < all_.size(); ++i) {
    if (all_[i].fits) order.push_back(i);
  }
  return measure(std::move(order));
}

// Returns the longest time that counts as "as fast as the fastest": kSlack more than the fastest,
// but not slower than the kernel's default. `least_ns` is a time that a tiling which is not
// simulated yet may take. The result is the limit if it takes this time.
double Search::limit_ns(double least_ns) const {
  double fastest = least_ns, standard = kNever;
  for (const Candidate& c : all_) {
    fastest = std::min(fastest, c.latency_ns);
    if (c.name == default_) standard = c.latency_ns;
  }
  return std::max(fastest, std::min(fastest * (1 + kSlack), standard));
}

// Returns the time above which a tiling does not change the outcome: it is neither as fast as the
// fastest nor one of the `top` fastest. The result is unlimited while fewer than `top` tilings are
// known.
double Search::longest_useful_ns() const {
  std::vector<double> latencies;
  for (const Candidate& c : all_) {
    if (c.latency_ns < kNever) latencies.push_back(c.latency_ns);
  }
  const auto n = static_cast<size_t>(options_.top);
  if (latencies.size() < n) return kNever;
  std::nth_element(latencies.begin(), latencies.begin() + static_cast<std::ptrdiff_t>(n - 1),
                   latencies.end());
  return std::max(latencies[n - 1], limit_ns());
}

// Returns the number of bytes above which a tiling is not among the `top` best, whatever its time.
// At least `top` other tilings then count as fast and move fewer bytes. They must still count as
// fast after the fastest tiling is found. No remaining tiling takes less than `least_ns`, the
// lowest of their bounds, so the limit for that time is the strictest possible one.
int64_t Search::most_useful_bytes(double least_ns) const {
  const double limit = limit_ns(least_ns);
  std::vector<int64_t> bytes;
  for (const Candidate& c : all_) {
    if (c.latency_ns <= limit) bytes.push_back(c.hbm_bytes);
  }
  const auto n = static_cast<size_t>(options_.top);
  if (bytes.size() < n) return std::numeric_limits<int64_t>::max();
  std::nth_element(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n - 1), bytes.end());
  return bytes[n - 1];
}

// Simulates one tiling. The simulation stops once the tiling is certain to take longer than
// `trial.ns`, and then only this is known about it.
void Search::simulate(Candidate& candidate, Trial& trial) const {
  simulator::TimingOptions timing_options;
  if (trial.ns < kNever) timing_options.longest_ns = trial.ns;
  const auto timing = simulator::simulate(program(candidate.tiling), p_.device, timing_options);
  NMM_CHECK(timing.ok());  // The simulation cannot fail, because the tiling fits.
  trial.gave_up = timing->gave_up;
  if (!trial.gave_up) trial.ns = timing->summary.total_time * 1e9;
}

// Simulates tilings in the order of their bounds, and at equal bounds in the order of their bytes.
// A simulation is given up as soon as it is certain to take longer than is of use. Until a fast
// tiling is known, no simulation could be given up.
//
// The search therefore first assumes that a tiling within 0.5 % of the lowest bound exists, and
// gives up the simulations that take longer. If fewer than `top` tilings are that fast, it assumes
// 2 %, 10 %, 50 %, and at last no limit. Tilings that were given up are simulated again under the
// next assumption. The four steps are assumed; they affect the time of the search but not its
// result.
Status Search::measure(std::vector<size_t> order) {
  if (order.empty()) return {};
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return std::tuple(all_[a].bound.ns(), all_[a].hbm_bytes, a) <
           std::tuple(all_[b].bound.ns(), all_[b].hbm_bytes, b);
  });
  Progress silent;
  Progress& progress = options_.progress && order.size() > 1 ? *options_.progress : silent;
  const double least = all_[order.front()].bound.ns();
  for (const double stretch : {1 + kSlack, 1.02, 1.1, 1.5, kNever}) {
    NMM_TRY(measure_within(stretch * least, order, progress));
    if (longest_useful_ns() <= stretch * least) break;
  }
  progress.finish();
  return {};
}

// Simulates tilings under one assumption of measure(): they take at most `most_ns`. Ends when no
// bound is below what is already known.
Status Search::measure_within(double most_ns, std::vector<size_t> order, Progress& progress) {
  const auto whole = std::ssize(order);
  progress.start(fmt::format("tuning {}", p_.kernel->name), whole);
  while (!order.empty()) {
    const double longest = std::min(longest_useful_ns(), most_ns);
    // `order` is sorted by bound, so its first tiling has the lowest bound that is left.
    const double least = all_[order.front()].bound.ns();
    const int64_t most_bytes = most_useful_bytes(least);
    std::erase_if(order, [&](size_t i) { return all_[i].hbm_bytes > most_bytes; });
    if (order.empty() || all_[order.front()].bound.ns() > longest) break;
    const size_t count = std::min(kBatch, order.size());
    measure_batch(std::span(order).first(count), longest);
    if (interrupted()) return stopped();
    order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    const Candidate* best = best_with_setting({}, true);
    progress.update(whole - std::ssize(order),
                    best ? fmt::format("best {:.4f} ms", best->latency_ns * 1e-6) : "");
  }
  return {};
}

// Reuses the trials of an interrupted search, unless a trial was given up at a shorter time than is
// of use now.
void Search::measure_batch(std::span<const size_t> batch, double longest) {
  std::vector<Trial> trials(batch.size(), Trial{.ns = longest});
  std::vector<char> done(batch.size());
  parallel_for(std::ssize(batch), [&](int64_t at) {
    const auto i = static_cast<size_t>(at);
    Candidate& candidate = all_[batch[i]];
    const auto known = trials_.find(candidate.name);
    if (known != trials_.end() && !(known->second.gave_up && known->second.ns < longest)) {
      trials[i] = known->second;
    } else if (!interrupted()) {
      simulate(candidate, trials[i]);
    } else {
      return;
    }
    done[i] = 1;
  });
  // Results are recorded in order after the parallel part, because the outcome must not depend on
  // which simulation ends first.
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!done[i]) continue;
    Candidate& candidate = all_[batch[i]];
    trials_.insert_or_assign(candidate.name, trials[i]);
    candidate.simulated = true;
    if (!trials[i].gave_up) candidate.latency_ns = trials[i].ns;
  }
}

// Returns the best candidate so far, among all (`any`) or among those with the same values for the
// parameters that belong to no part.
const Candidate* Search::best_with_setting(const Tiling& setting, bool any) const {
  const auto has_setting = [&](const Candidate& candidate) {
    return any ||
           std::all_of(setting.values().begin(), setting.values().end(), [&](const auto& value) {
             return !part_of(value.first).empty() || candidate.tiling[value.first] == value.second;
           });
  };
  const double limit = limit_ns();
  const Candidate* best = nullptr;
  for (const Candidate& candidate : all_) {
    if (candidate.latency_ns == kNever || !has_setting(candidate)) continue;
    if (!best || is_better(candidate, *best, limit)) best = &candidate;
  }
  return best;
}

// Returns the reason (tuner.h). A candidate whose bound is within the limit but that was never
// simulated was left out because of its bytes.
Rejection Search::rejection_of(const Candidate& candidate, double limit) const {
  if (!candidate.fits) return Rejection::kCapacity;
  if (candidate.latency_ns <= limit) return Rejection::kTraffic;
  const simulator::Bound& bound = candidate.bound;
  if (bound.ns() <= limit) return candidate.simulated ? Rejection::kWaiting : Rejection::kTraffic;
  if (bound.tensor_ns >= std::max(bound.dma_ns, bound.elementwise_ns)) return Rejection::kTensor;
  return bound.dma_ns >= bound.elementwise_ns ? Rejection::kDma : Rejection::kElementwise;
}

std::string Search::explain(const Candidate& candidate, Rejection rejection) const {
  const auto ms = [](double ns) { return fmt::format("{:.4f} ms", ns * 1e-6); };
  switch (rejection) {
    case Rejection::kCapacity:
      return "SBUF needs " + simulator::describe(program(candidate.tiling), candidate.sbuf);
    case Rejection::kTensor:
      return fmt::format("the Tensor engine alone takes {}", ms(candidate.bound.tensor_ns));
    case Rejection::kDma:
      return fmt::format("its DMA alone takes {}", ms(candidate.bound.dma_ns));
    case Rejection::kElementwise:
      return fmt::format("Vector, Scalar and GpSimd alone take {}",
                         ms(candidate.bound.elementwise_ns));
    case Rejection::kTraffic:
      return fmt::format("{} and moves {:.2f} MiB",
                         candidate.simulated
                             ? "takes " + ms(candidate.latency_ns)
                             : fmt::format("takes {} or more", ms(candidate.bound.ns())),
                         static_cast<double>(candidate.hbm_bytes) / (1 << 20));
    case Rejection::kWaiting:
      break;
  }
  // No resource alone takes that long, so the difference between the time and the bound is waiting.
  const Trial& trial = trials_.at(candidate.name);
  return fmt::format("takes {}{}, of which no resource is busy for more than {}",
                     trial.gave_up ? "more than " : "", ms(trial.ns), ms(candidate.bound.ns()));
}

// The message names the tiling that comes closest and its buffers, because these buffers have to
// shrink.
Error Search::nothing_fits() const {
  const auto least = std::min_element(all_.begin(), all_.end(), [](const auto& a, const auto& b) {
    return a.sbuf.peak < b.sbuf.peak;
  });
  return fail("{}: no tiling fits into the {:.2f} MiB of SBUF of {}; the smallest, {}, needs {}",
              key_of(p_), static_cast<double>(capacity()) * 128 / (1 << 20), p_.device.name,
              least->name, simulator::describe(program(least->tiling), least->sbuf));
}

Result<Outcome> Search::outcome() const {
  std::vector<const Candidate*> ranked, rejected;
  for (const Candidate& candidate : all_) {
    (candidate.latency_ns < kNever ? ranked : rejected).push_back(&candidate);
  }
  if (ranked.empty()) return nothing_fits();
  const double limit = limit_ns();
  std::stable_sort(ranked.begin(), ranked.end(),
                   [limit](const auto* a, const auto* b) { return is_better(*a, *b, limit); });
  Outcome outcome;
  outcome.fastest_ns = kNever;
  // The best tiling is not always the fastest: it may take kSlack more and move fewer bytes.
  for (const Candidate* c : ranked)
    outcome.fastest_ns = std::min(outcome.fastest_ns, c->latency_ns);
  outcome.tilings = std::ssize(all_);
  outcome.simulated =
      std::count_if(all_.begin(), all_.end(), [](const Candidate& c) { return c.simulated; });
  for (const Candidate* c : ranked) {
    if (static_cast<int64_t>(outcome.best.size()) == options_.top) break;
    outcome.best.push_back({c->tiling, c->latency_ns, c->hbm_bytes, c->bound});
  }
  rejected.insert(rejected.begin(), ranked.begin() + 1, ranked.end());
  // Returns how close a tiling came, in the unit of its reason.
  const auto distance = [](const Candidate& c, Rejection reason) {
    if (reason == Rejection::kCapacity) return static_cast<double>(c.sbuf.peak);
    if (reason == Rejection::kTraffic) return static_cast<double>(c.hbm_bytes);
    return reason == Rejection::kWaiting ? c.latency_ns : c.bound.ns();
  };
  std::array<const Candidate*, kNumRejections> closest{};
  for (const Candidate* c : rejected) {
    const Rejection reason = rejection_of(*c, limit);
    ++outcome.rejected[static_cast<size_t>(reason)].count;
    const Candidate*& best = closest[static_cast<size_t>(reason)];
    if (!best || distance(*c, reason) < distance(*best, reason)) best = c;
    if (c->fits) ++outcome.fitting;
  }
  ++outcome.fitting;  // The best tiling fits, too.
  for (size_t i = 0; i < closest.size(); ++i) {
    if (!closest[i]) continue;
    outcome.rejected[i].closest = closest[i]->tiling;
    outcome.rejected[i].why = explain(*closest[i], static_cast<Rejection>(i));
  }
  // Every kernel for this problem has to move each operand over HBM once.
  for (const tile::Buffer& buffer : program(ranked.front()->tiling).buffers) {
    if (buffer.role != tile::HbmRole::kInput && buffer.role != tile::HbmRole::kOutput) continue;
    int64_t bytes = dtype_size_bytes(buffer.dtype);
    for (const int64_t size : buffer.shape) bytes *= size;
    outcome.compulsory_bytes += bytes;
  }
  return outcome;
}

}  // namespace

std::string_view rejection_name(Rejection rejection) {
  constexpr std::string_view kNames[] = {"capacity",    "Tensor",  "DMA",
                                         "elementwise", "waiting", "traffic"};
  return kNames[static_cast<size_t>(rejection)];
}

Result<Outcome> tune(const Problem& problem, const TuneOptions& options) {
  // An empty cache in memory replaces a missing one, so the code below needs no checks.
  Cache empty_cache;
  Cache& cache = options.cache ? *options.cache : empty_cache;
  NMM_ASSIGN(std::optional<Outcome> known, cache.find(problem, options.top));
  if (known) return *known;
  // The next two calls reject invalid shapes, options and chosen parameters.
  NMM_ASSIGN(const Tiling defaults, kernels::tiling_of(*problem.kernel, problem.chosen));
  NMM_TRY(kernels::make_program(*problem.kernel, problem.shape, defaults, problem.options));
  Search search(problem, options, cache.trials(problem));
  // Simulations before an interruption are kept, and the next run continues from them.
  if (const Status done = search.run(); !done.ok()) {
    cache.store(problem, search.trials());
    return done.error();
  }
  NMM_ASSIGN(Outcome outcome, search.outcome());
  cache.store(problem, options.top, outcome);
  return outcome;
}

}  // namespace neuronmm::tuner
