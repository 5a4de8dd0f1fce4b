// Every fuzz target on its corpus, in which is what a fuzzer once found: a crash of old does not
// come back unseen where no fuzzer runs.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "places.h"

#define NMM_FUZZ_TARGETS(X)                                                                      \
  X(chat_request)                                                                                \
  X(chat_template) X(config) X(event_stream) X(generation_config) X(gguf) X(json_schema)         \
      X(kernel_trace) X(safetensors) X(task_item) X(tokenizer) X(tool_calls) X(training_records) \
          X(tuner_cache)

// CMakeLists.txt calls each target's function by the target's name.
#define NMM_DECLARE(name) extern "C" int fuzz_##name(const uint8_t* data, size_t size);
NMM_FUZZ_TARGETS(NMM_DECLARE)

namespace neuronmm {
namespace {

namespace fs = std::filesystem;

struct FuzzTarget {
  std::string name;
  int (*run)(const uint8_t*, size_t);
};
#define NMM_ROW(name) {#name, fuzz_##name},
const std::vector<FuzzTarget> kTargets = {NMM_FUZZ_TARGETS(NMM_ROW)};

fs::path corpora() { return source_dir() / "fuzz/corpus"; }

class Corpus : public testing::TestWithParam<FuzzTarget> {};

TEST_P(Corpus, IsRead) {
  int files = 0;
  for (const fs::directory_entry& seed : fs::directory_iterator(corpora() / GetParam().name)) {
    SCOPED_TRACE(seed.path().string());
    std::ifstream stream(seed.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_EQ(GetParam().run(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 0);
    ++files;
  }
  EXPECT_GT(files, 0);
}
INSTANTIATE_TEST_SUITE_P(Targets, Corpus, testing::ValuesIn(kTargets),
                         [](const auto& target) { return target.param.name; });

TEST(Corpora, BelongToATarget) {
  for (const fs::directory_entry& folder : fs::directory_iterator(corpora())) {
    if (!folder.is_directory()) continue;
    const auto same = [&](const FuzzTarget& target) {
      return target.name == folder.path().filename();
    };
    EXPECT_TRUE(std::ranges::any_of(kTargets, same)) << folder.path();
  }
}

}  // namespace
}  // namespace neuronmm
