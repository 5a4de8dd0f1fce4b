// Checks the cache file: what is stored can be read again, stale entries are noticed, and malformed
// files are named.

#include "trainium/tuner/cache.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "problems.h"

namespace neuronmm::tuner {
namespace {

namespace fs = std::filesystem;

const Problem kProblem = problem_of("xuv", {200, 256, 128, 700});

std::string tuned_json() {
  Cache cache;
  EXPECT_TRUE(tune(kProblem, {.top = 3, .cache = &cache}).ok());
  return cache.to_json();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Cache, StoredOutcomesAreFoundAgain) {
  const auto uncached = tune(kProblem, {.top = 3});
  const std::string json = tuned_json();
  auto cache = Cache::parse(json, "c.json");
  ASSERT_TRUE(cache.ok()) << cache.error().message;
  EXPECT_EQ(cache->to_json(), json);
  const auto found = cache->find(kProblem, 3);
  ASSERT_TRUE(found.ok() && found->has_value());
  const Outcome& outcome = **found;
  EXPECT_TRUE(outcome.from_cache);
  ASSERT_EQ(outcome.best.size(), uncached->best.size());
  for (size_t i = 0; i < outcome.best.size(); ++i) {
    EXPECT_EQ(tiling_text(outcome.best[i].tiling), tiling_text(uncached->best[i].tiling));
    EXPECT_EQ(outcome.best[i].latency_ns, uncached->best[i].latency_ns);
    EXPECT_EQ(outcome.best[i].hbm_bytes, uncached->best[i].hbm_bytes);
  }
  for (size_t i = 0; i < outcome.rejected.size(); ++i) {
    EXPECT_EQ(outcome.rejected[i].count, uncached->rejected[i].count);
    EXPECT_EQ(outcome.rejected[i].why, uncached->rejected[i].why);
  }
  EXPECT_EQ(cache->find(kProblem, 1).value()->best.size(), 1u);
  EXPECT_FALSE(cache->find(kProblem, 4).value().has_value());  // The cache has the best three only.
  EXPECT_EQ(cache->stale(), 0);
}

TEST(Cache, OtherProblemsAreNotFound) {
  auto cache = Cache::parse(tuned_json(), "c.json");
  for (const Problem& other :
       {problem_of("xtuv", kProblem.shape), problem_of("xuv", {201, 256, 128, 700}),
        problem_of("xuv", kProblem.shape, {.accumulate = DType::kBF16}),
        problem_of("xuv", kProblem.shape, {}, "trn2")}) {
    EXPECT_FALSE(cache->find(other, 1).value().has_value()) << key_of(other);
  }
  EXPECT_EQ(cache->stale(), 0);
}

// A search on two cores must not replace the entries of its sub-kernels on one core.
TEST(Cache, SubKernelsAreStoredForTheCoresOfTheWhole) {
  Problem mlp = problem_of("mlp", {64, 256, 128, 256}, {}, "trn2");
  mlp.cores = 2;
  mlp.device = simulator::with_shared_stack(mlp.device, 2);
  Cache cache;
  ASSERT_TRUE(tune(mlp, {.top = 1, .cache = &cache}).ok());
  Problem up = problem_of("mlp_up", mlp.shape, {}, "trn2");
  EXPECT_FALSE(cache.find(up, 1).value().has_value());
  up.cores = mlp.cores;
  up.device = mlp.device;
  EXPECT_TRUE(cache.find(up, 1).value().has_value());
  EXPECT_EQ(cache.stale(), 0);
}

TEST(Cache, AnotherDeviceModelMakesAnEntryStale) {
  auto cache = Cache::parse(tuned_json(), "c.json");
  Problem faster = kProblem;
  faster.device.dma_start_ns.value /= 2;
  EXPECT_FALSE(cache->find(faster, 1).value().has_value());
  EXPECT_EQ(cache->stale(), 1);
  // A stale problem is tuned again for the changed device.
  const auto again = tune(faster, {.top = 1, .cache = &*cache});
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->from_cache);
  EXPECT_TRUE(cache->find(faster, 1).value().has_value());
}

// The builder changes only for up to 128 rows and only if the tiling asks for their loops.
TEST(Fingerprint, CoversTheLoopsForFewRows) {
  static const kernels::Kernel& xuv = *kProblem.kernel;
  kernels::Kernel changed = xuv;
  changed.make = [](const kernels::KernelShape& shape, const kernels::Tiling& tiling,
                    const kernels::KernelOptions& options) {
    kernels::Tiling other = tiling;
    if (shape.M <= 128 && tiling["contiguous"] == 1) other.set("copies", 3);
    return xuv.make(shape, other, options);
  };
  Problem problem = kProblem;
  const std::string before = fingerprint(problem);
  kernels::Kernel same = xuv;
  problem.kernel = &same;
  EXPECT_EQ(fingerprint(problem), before);
  problem.kernel = &changed;
  EXPECT_NE(fingerprint(problem), before);
}

TEST(Cache, TrialsOfAnInterruptedSearchAreKept) {
  Cache cache;
  cache.store(kProblem, {{"BM=1", {12.5, false}}, {"BM=2", {99, true}}});
  auto read = Cache::parse(cache.to_json(), "c.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  const Trials trials = read->trials(kProblem);
  ASSERT_EQ(trials.size(), 2u);
  EXPECT_EQ(trials.at("BM=1").ns, 12.5);
  EXPECT_FALSE(trials.at("BM=1").gave_up);
  EXPECT_TRUE(trials.at("BM=2").gave_up);
}

TEST(Cache, MalformedFilesAreNamed) {
  const std::string json = tuned_json();
  const std::pair<std::string, const char*> bad[] = {
      {"", "c.json"},
      {"[]", "c.json"},
      {"{}", "neuronmm_tilings"},
      {json.substr(0, json.size() / 2), "c.json"},
      {replaced(json, "\"neuronmm_tilings\": 2", "\"neuronmm_tilings\": 3"), "expected 2"},
      {replaced(json, "\"entries\"", "\"entrys\""), "entries"},
      {replaced(json, "\"latency_ns\": ", "\"latency_ns\": -"), "latency_ns"},
      {replaced(json, "\"hbm_bytes\": ", "\"hbm_bytes\": \"many\", \"x\": "), "hbm_bytes"},
      {replaced(json, "\"BM\": ", "\"BM\": \"two\", \"x\": "), "BM"},
      {replaced(json, "\"fingerprint\"", "\"finger\""), "fingerprint"}};
  for (const auto& [text, part] : bad) {
    const auto cache = Cache::parse(text, "c.json");
    ASSERT_FALSE(cache.ok()) << text;
    EXPECT_NE(cache.error().message.find("c.json"), std::string::npos) << cache.error().message;
    EXPECT_NE(cache.error().message.find(part), std::string::npos) << cache.error().message;
  }
  // The file is well-formed, but the tiling is none of the kernel's.
  auto cache = Cache::parse(replaced(json, "\"BM\": ", "\"BM\": 0, \"x\": "), "c.json");
  ASSERT_TRUE(cache.ok());
  EXPECT_FALSE(cache->find(kProblem, 1).ok());
}

TEST(Cache, AFileIsMadeWithItsFolderAndReadAgain) {
  const fs::path folder = fs::temp_directory_path() / ("tilings-" + std::to_string(getpid()));
  const fs::path path = folder / "new/tilings.json";
  auto cache = Cache::open(path);
  ASSERT_TRUE(cache.ok());
  ASSERT_TRUE(tune(kProblem, {.top = 1, .cache = &*cache}).ok());
  ASSERT_TRUE(cache->save().ok());
  auto again = Cache::open(path);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(tune(kProblem, {.top = 1, .cache = &*again})->from_cache);
  fs::remove_all(folder);
  EXPECT_FALSE(Cache::open("/proc/nowhere/t.json")->save().ok());
}

}  // namespace
}  // namespace neuronmm::tuner
