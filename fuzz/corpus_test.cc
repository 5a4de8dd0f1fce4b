// Runs every fuzz target on its corpus, which contains inputs that a fuzzer once found. A fixed
// crash that comes back is therefore noticed without a fuzzer, too.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "places.h"

// CMakeLists.txt names each target's function after the target.
extern "C" {
using FuzzFunction = int(const uint8_t*, size_t);
FuzzFunction fuzz_adapter_config, fuzz_chat_request, fuzz_chat_template, fuzz_config,
    fuzz_foreign_weights, fuzz_gbnf, fuzz_generation_config, fuzz_gguf, fuzz_grammar, fuzz_http,
    fuzz_json_schema, fuzz_kernel_trace, fuzz_safetensors, fuzz_task_item, fuzz_tokenizer,
    fuzz_tool_calls, fuzz_training_records, fuzz_tuner_cache;
}

namespace neuronmm {
namespace {

namespace fs = std::filesystem;

struct FuzzTarget {
  std::string name;
  FuzzFunction* run;
};
const std::vector<FuzzTarget> kTargets = {{"adapter_config", fuzz_adapter_config},
                                          {"chat_request", fuzz_chat_request},
                                          {"chat_template", fuzz_chat_template},
                                          {"config", fuzz_config},
                                          {"foreign_weights", fuzz_foreign_weights},
                                          {"gbnf", fuzz_gbnf},
                                          {"generation_config", fuzz_generation_config},
                                          {"gguf", fuzz_gguf},
                                          {"grammar", fuzz_grammar},
                                          {"http", fuzz_http},
                                          {"json_schema", fuzz_json_schema},
                                          {"kernel_trace", fuzz_kernel_trace},
                                          {"safetensors", fuzz_safetensors},
                                          {"task_item", fuzz_task_item},
                                          {"tokenizer", fuzz_tokenizer},
                                          {"tool_calls", fuzz_tool_calls},
                                          {"training_records", fuzz_training_records},
                                          {"tuner_cache", fuzz_tuner_cache}};

fs::path corpora() { return source_dir() / "fuzz/corpus"; }

class Corpus : public testing::TestWithParam<FuzzTarget> {};

TEST_P(Corpus, EveryFilePassesItsTarget) {
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

TEST(Corpora, EveryFolderBelongsToATarget) {
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
