// This test compares the prompts of every published item, byte for byte, with
// lm-evaluation-harness. The expected values are hashes of what the task code of its version
// 0.4.13.dev0 (commit 4e7e0d47) made from the same documents.

#include <ostream>

#include <gtest/gtest.h>

#include "eval/eval_test.h"
#include "eval/task_item.h"

namespace neuronmm::eval {
namespace {

// Returns FNV-1a, 64 bits, over "{context}\0{continuation}\0" of every request of every item in
// order.
uint64_t hash_requests(const std::vector<TaskItem>& items) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](const std::string& text) {
    for (const char* byte = text.c_str(); byte <= text.c_str() + text.size(); ++byte) {
      hash = (hash ^ static_cast<unsigned char>(*byte)) * 0x100000001b3;
    }
  };
  for (const TaskItem& item : items) {
    for (const Request& request : item.requests) {
      add(request.context);
      add(request.continuation);
    }
  }
  return hash;
}

struct HarnessPrompts {
  const char* task;
  size_t items;
  uint64_t hash;

  friend void PrintTo(const HarnessPrompts& prompts, std::ostream* out) { *out << prompts.task; }
};

class HarnessPromptsTest : public testing::TestWithParam<HarnessPrompts> {};

TEST_P(HarnessPromptsTest, RequestsOfAllItemsMatchTheHarness) {
  NMM_TEST_DATA_OR_SKIP(data, "tasks");
  const Task& task = *value_of(parse_tasks(GetParam().task)).front();
  const auto items = value_of(read_items(task, value_of(find_files(task, data)), 0));
  EXPECT_EQ(items.size(), GetParam().items);
  EXPECT_EQ(hash_requests(items), GetParam().hash);
}

INSTANTIATE_TEST_SUITE_P(Published, HarnessPromptsTest,
                         testing::Values(HarnessPrompts{"openbookqa", 500, 0x15699494d780d34d},
                                         HarnessPrompts{"winogrande", 1267, 0x483b31fcb811a1e0},
                                         HarnessPrompts{"piqa", 1838, 0x6f3a784bfbcb1162},
                                         HarnessPrompts{"hellaswag", 1000, 0x1bf79d499407ea84},
                                         HarnessPrompts{"arc_easy", 2376, 0xfb53dd3c818b8278},
                                         HarnessPrompts{"arc_challenge", 1172, 0xa9c15aed67991ad7}),
                         [](const auto& prompts) { return std::string(prompts.param.task); });

}  // namespace
}  // namespace neuronmm::eval
