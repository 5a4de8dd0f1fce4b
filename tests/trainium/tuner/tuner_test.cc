// Compares the search with an exhaustive one and checks its promises. The result must not depend on
// the number of threads or on an interrupt. Chosen parameters must stay, and the error must be
// clear if nothing fits.

#include "trainium/tuner/tuner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "problems.h"
#include "trainium/simulator/timing.h"
#include "trainium/tuner/cache.h"
#include "trainium/tuner/search_space.h"

namespace neuronmm::tuner {
namespace {

using kernels::Tiling;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct Simulated {
  // Infinity means that the tiling does not fit.
  double ns = std::numeric_limits<double>::infinity();
  int64_t hbm_bytes = 0;
};

Simulated simulated(const Problem& p, const Tiling& tiling) {
  const auto program = kernels::make_program(*p.kernel, p.shape, tiling, p.options);
  const auto timing = simulator::simulate(*program, p.device);
  if (!timing.ok() || !timing->remedies.empty()) return {};
  return {timing->summary.total_time * 1e9, timing->summary.hbm_bytes()};
}

// The simulation of every tiling of a kernel of one part, and the choice among them.
struct Exhaustive {
  int64_t fitting = 0;
  double fastest_ns = 0;
  Simulated best;
};
Exhaustive exhaustive(const Problem& p) {
  const Tiling defaults = *kernels::tiling_of(*p.kernel, p.chosen);
  const double standard = simulated(p, defaults).ns;
  std::map<std::string, Tiling> distinct = {{tiling_text(defaults), defaults}};
  for (const Tiling& tiling : combinations(p, defaults, "")) {
    distinct.emplace(tiling_text(tiling), tiling);
  }
  std::vector<Simulated> all;
  for (const auto& [name, tiling] : distinct) all.push_back(simulated(p, tiling));
  Exhaustive result{.fastest_ns = Simulated().ns, .best = {}};
  for (const Simulated& s : all) {
    result.fitting += s.ns < Simulated().ns;
    result.fastest_ns = std::min(result.fastest_ns, s.ns);
  }
  for (const Simulated& s : all) {
    if (s.ns > result.fastest_ns * (1 + kSlack) || s.ns > standard) continue;
    const bool better =
        std::tuple(s.hbm_bytes, s.ns) < std::tuple(result.best.hbm_bytes, result.best.ns);
    if (result.best.hbm_bytes == 0 || better) result.best = s;
  }
  return result;
}

// Returns small search spaces in which different resources decide.
std::vector<Problem> small_problems() {
  const kernels::KernelOptions bf16_sums{.accumulate = DType::kBF16};
  const kernels::KernelOptions fp32{.dtype = DType::kF32};
  return {problem_of("xuv", {1, 512, 256, 1024}),
          problem_of("xuv", {700, 512, 384, 1500}, bf16_sums),
          problem_of("xtuv", {1024, 300, 256, 700}, {}, "trn2"),
          problem_of("xuv_transposed", {600, 512, 256, 640}, fp32),
          problem_of("mlp_up", {512, 384, 256, 512}, {}, "trn3"),
          problem_of("matmul_fixed_order", {1000, 600, 0, 1200}),
          problem_of("matmul_blocked", {4096, 4096, 0, 2048}, fp32)};
}

TEST(Tuner, TheBoundNeverPrunesTheBest) {
  for (const Problem& problem : small_problems()) {
    SCOPED_TRACE(key_of(problem));
    const auto outcome = tune(problem, {.top = 3});
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    const Exhaustive wanted = exhaustive(problem);
    EXPECT_EQ(outcome->fitting, wanted.fitting);
    EXPECT_GE(outcome->fastest_ns, wanted.fastest_ns);
    EXPECT_LE(outcome->fastest_ns, wanted.fastest_ns * (1 + kSlack));
    EXPECT_EQ(outcome->best.front().latency_ns, wanted.best.ns);
    EXPECT_EQ(outcome->best.front().hbm_bytes, wanted.best.hbm_bytes);
    int64_t num_rejected = 0;
    for (const RejectedTilings& rejected : outcome->rejected) num_rejected += rejected.count;
    EXPECT_EQ(num_rejected, outcome->tilings - 1);
  }
}

TEST(Tuner, TheResultIsTheSameOnAnyNumberOfThreads) {
  const Problem problem = problem_of("xuv", {600, 700, 300, 1500});
  const int threads = num_threads();
  std::string first;
  for (const int n : {1, 2, 5}) {
    set_num_threads(n);
    Cache cache;
    ASSERT_TRUE(tune(problem, {.top = 4, .cache = &cache}).ok());
    if (first.empty()) first = cache.to_json();
    EXPECT_EQ(cache.to_json(), first) << n;
  }
  set_num_threads(threads);
}

TEST(Tuner, ChosenParametersStay) {
  Problem problem = problem_of("xuv", {600, 700, 300, 1500});
  problem.chosen = {{"BK", 3}};
  const auto outcome = tune(problem, {.top = 1000});
  ASSERT_TRUE(outcome.ok());
  EXPECT_GT(outcome->best.size(), 3u);
  for (const Measurement& m : outcome->best) EXPECT_EQ(m.tiling["BK"], 3);
  problem.chosen = {{"BX", 3}};
  EXPECT_TRUE(contains(tune(problem).error().message, "BX"));
}

TEST(Tuner, TheWholeMlpIsAtLeastAsFastAsItsDefaults) {
  const Problem problem = problem_of("mlp", {256, 512, 256, 1024});
  const auto outcome = tune(problem);
  ASSERT_TRUE(outcome.ok());
  const auto defaults = kernels::make_program(*problem.kernel, problem.shape,
                                              *kernels::tiling_of(*problem.kernel, {}), {});
  const auto timing = simulator::simulate(*defaults, problem.device);
  EXPECT_LE(outcome->best.front().latency_ns, timing->summary.total_time * 1e9);
}

// A kernel of parts is searched part by part, and then around the best tiling. No tiling that
// differs from the result in one parameter may be better.
TEST(Tuner, NoNeighbourOfTheBestTilingIsBetter) {
  for (const Problem& problem : {problem_of("dense_mlp", {1, 2048, 0, 832}, {}, "trn2"),
                                 problem_of("dense_mlp", {300, 512, 0, 1024}),
                                 problem_of("mlp", {1, 512, 256, 1024}, {}, "trn2")}) {
    SCOPED_TRACE(key_of(problem));
    const auto outcome = tune(problem, {.top = 1});
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    for (const Tiling& next : neighbours(problem, outcome->best[0].tiling)) {
      const Simulated found = simulated(problem, next);
      EXPECT_GE(found.ns, outcome->fastest_ns) << tiling_text(next);
    }
  }
}

// The strip alone, [r, 128 rows] in fp32 and again in bf16, is larger than SBUF.
TEST(Tuner, TheErrorNamesTheBuffersIfNothingFits) {
  const auto outcome = tune(problem_of("xuv", {128, 1024, 1 << 17, 512}));
  ASSERT_FALSE(outcome.ok());
  for (const char* part : {"no tiling fits", "strip", "MiB", "trn1", "131072"}) {
    EXPECT_TRUE(contains(outcome.error().message, part)) << outcome.error().message;
  }
}

TEST(Tuner, BadShapesAndOptionsAreRefused) {
  EXPECT_TRUE(contains(tune(problem_of("xuv", {0, 1, 1, 1})).error().message, "expected M"));
  const kernels::KernelOptions bad{.dtype = DType::kF32, .accumulate = DType::kBF16};
  EXPECT_TRUE(contains(tune(problem_of("xuv", {1, 1, 1, 1}, bad)).error().message, "fp32"));
}

TEST(Tuner, AnInterruptKeepsTheMeasurements) {
  const Problem problem = problem_of("xuv", {700, 512, 384, 1500});
  const auto whole = tune(problem);
  ASSERT_TRUE(whole.ok());
  Cache cache;
  set_interrupted(true);
  const auto stopped = tune(problem, {.cache = &cache});
  set_interrupted(false);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
  // Measurements are used again, so a false measurement must show in the result.
  Trials trials;
  const std::string best = tiling_text(whole->best.front().tiling);
  trials.emplace(best, Trial{1.0, false});
  cache.store(problem, trials);
  const auto resumed = tune(problem, {.cache = &cache});
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed->best.front().latency_ns, 1.0);
  EXPECT_EQ(tiling_text(resumed->best.front().tiling), best);
}

}  // namespace
}  // namespace neuronmm::tuner
