// This test parses tolerance maps in both notations, and checks the messages for wrong ones.

#include "eval/tolerance_map.h"

#include <string>

#include <gtest/gtest.h>

namespace neuronmm::eval {
namespace {

void expect_map(const std::string& text, const ToleranceMap& expected) {
  SCOPED_TRACE(text);
  const auto map = parse_tolerance_map(text);
  ASSERT_TRUE(map.ok()) << map.error().message;
  ASSERT_EQ(map->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ((*map)[i].top_k, expected[i].top_k) << i;
    EXPECT_EQ((*map)[i].absolute, expected[i].absolute) << i;
    EXPECT_EQ((*map)[i].relative, expected[i].relative) << i;
  }
}

TEST(ToleranceMap, ParsesPythonAndJson) {
  const ToleranceMap reference_default = {
      {std::nullopt, 1e-5, 0.05}, {1000, 1e-5, 0.03}, {50, 1e-5, 0.02}, {5, 1e-5, 0.01}};
  expect_map("{None: (1e-5, 0.05), 1000: (1e-5, 0.03), 50: (1e-5, 0.02), 5: (1e-5, 0.01)}",
             reference_default);
  expect_map(R"({"null": [1e-5, 0.05], "1000": [1e-5, 0.03], "50": [1e-5, 0.02], "5":[1e-5,0.01]})",
             reference_default);
  expect_map("{5: (1e-5, 0.02)}", {{5, 1e-5, 0.02}});
  expect_map("  {\n'None' : ( 0 , 1 , ) ,\t}  ", {{std::nullopt, 0.0, 1.0}});
  expect_map("{7:(.5,1E2)}", {{7, 0.5, 100.0}});
}

TEST(ToleranceMap, ErrorsNameThePosition) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "expected '{' at character 1, found the end"},
      {"5: (1, 1)", "expected '{' at character 1, found \"5: (1, 1)\""},
      {"{}", "expected None or a count of logits >= 1 at character 2, found \"}\""},
      {"{0: (1, 1)}", "expected None or a count of logits >= 1 at character 2"},
      {"{-3: (1, 1)}", "expected None or a count of logits >= 1 at character 2"},
      {"{99999999999999999999: (1, 1)}", "expected None or a count of logits >= 1"},
      {"{5.5: (1, 1)}", "expected ':' at character 3"},
      {"{\"5: (1, 1)}", "expected the closing quote"},
      {"{\"5", "expected the closing quote at character 4, found the end"},
      {"{\"5': (1, 1)}", "expected the closing quote"},
      {"{None (1, 1)}", "expected ':'"},
      {"{5: 0.1}", "expected a pair (absolute, relative) at character 5"},
      {"{5: (0.1)}", "expected ','"},
      {"{5: (0.1, 0.2, 0.3)}", "expected ')'"},
      {"{5: (0.1, 0.2]}", "expected ')'"},
      {"{5: [0.1, 0.2)}", "expected ']'"},
      {"{5: (-0.1, 0.2)}", "expected a number >= 0"},
      {"{5: (nan, 0.2)}", "expected a number >= 0"},
      {"{5: (inf, 0.2)}", "expected a number >= 0"},
      {"{5: (1e999, 0.2)}", "expected a number >= 0"},
      {"{5: (x, 0.2)}", "expected a number >= 0 at character 6, found \"x, 0.2)}\""},
      {"{5: (1, 1), 5: (2, 2)}", "5 appears twice"},
      {"{None: (1, 1), null: (2, 2)}", "None appears twice"},
      {"{5: (1, 1)", "expected ',' or '}' at character 11, found the end"},
      {"{5: (1, 1) 6: (1, 1)}", "expected ',' or '}'"},
      {"{5: (1, 1),,}", "expected None or a count"},
      {"{5: (1, 1)} x", "expected the end at character 13, found \"x\""},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    const auto map = parse_tolerance_map(text);
    ASSERT_FALSE(map.ok());
    EXPECT_NE(map.error().message.find(message), std::string::npos) << map.error().message;
  }
}

}  // namespace
}  // namespace neuronmm::eval
