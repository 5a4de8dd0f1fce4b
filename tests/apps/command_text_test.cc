// This file tests how a report shows the command line that made it.

#include "command_text.h"

#include <gtest/gtest.h>

namespace {

using neuronmm::apps::command_text;

TEST(CommandText, IsWhatAShellWouldRead) {
  EXPECT_EQ(command_text({"inspect", "models/demo"}), "neuronmm inspect models/demo");
  EXPECT_EQ(command_text({"generate", "M", "it's a \"test\"", ""}),
            R"(neuronmm generate M 'it'\''s a "test"' '')");
}

TEST(CommandText, HidesSecrets) {
  EXPECT_EQ(command_text({"serve", "M", "--api-key", "abc", "--port", "1"}),
            "neuronmm serve M --api-key *** --port 1");
  EXPECT_EQ(command_text({"serve", "M", "--api-key=abc"}), "neuronmm serve M --api-key=***");
  EXPECT_EQ(command_text({"x", "--password", "a", "--hf-token", "b", "--secret=c"}),
            "neuronmm x --password *** --hf-token *** --secret=***");
  EXPECT_EQ(command_text({"x", "https://me:pass@example.org/model"}),
            "neuronmm x https://***@example.org/model");
  EXPECT_EQ(command_text({"x", "https://example.org/a@b"}), "neuronmm x https://example.org/a@b");
}

TEST(CommandText, OptionsThatOnlySoundAlikeAreShown) {
  EXPECT_EQ(command_text({"compress", "M", "--calibration-tokens", "512", "--max-new-tokens=4"}),
            "neuronmm compress M --calibration-tokens 512 --max-new-tokens=4");
}

}  // namespace
