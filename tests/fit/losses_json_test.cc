// Tests that losses and ratios are read as they were written, and that other files are refused.

#include "fit/losses_json.h"

#include <gtest/gtest.h>

#include "fit/correction_json.h"
#include "io/text_file.h"
#include "model/tiny_model.h"

namespace neuronmm::fit {
namespace {

TEST(LossesJson, ReadsWhatItHasWritten) {
  const model::ModelFolder folder;
  const auto path = folder.path() / "rounding.json";
  const auto none = read_losses(path);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
  const LossesByName losses = {{"head", {1e-7, 0.25, 1.0 / 3.0, 0.0}},
                               {"layers.0.1", {1, 2, 3, 4}}};
  ASSERT_TRUE(write_losses(path, losses).ok());
  const auto read = read_losses(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, losses);
}

TEST(LossesJson, RefusesOtherFiles) {
  const model::ModelFolder folder;
  const auto path = folder.path() / "rounding.json";
  for (const char* text : {"[]", "{", R"({"a":1})", R"({"a":[1,2,3]})", R"({"a":[1,2,3,-1]})",
                           R"({"a":[1,2,3,"x"]})", R"({"a":[1,2,3,1e999]})"}) {
    ASSERT_TRUE(io::write_text_file(path, text).ok());
    const auto read = read_losses(path);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.error().message.find("rounding.json"), std::string::npos) << text;
  }
}

TEST(CorrectionJson, KeepsRatiosAndRefusesOtherFiles) {
  const model::ModelFolder folder;
  const auto path = folder.path() / "correction.json";
  EXPECT_EQ(geometric_mean(read_ratios(path)->rounding), 1.0);
  ASSERT_TRUE(write_ratios(path, {{}, {1.5, 6.0}}).ok());
  const auto read = read_ratios(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(read->shapes.empty());
  EXPECT_DOUBLE_EQ(geometric_mean(read->rounding), 3.0);
  for (const char* text :
       {"{}", R"({"shapes":1,"rounding":[]})", R"({"shapes":[],"rounding":[0]})",
        R"({"shapes":["a"],"rounding":[]})", R"({"shapes":[-1],"rounding":[]})"}) {
    ASSERT_TRUE(io::write_text_file(path, text).ok());
    const auto refused = read_ratios(path);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_NE(refused.error().message.find("correction.json"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace neuronmm::fit
