// Compares templates with the texts that jinja2 makes of them: a line for every construct of the
// language, and a few whole templates (tests/slow/chat_templates/make_golden.py).

#include <cstdlib>
#include <ctime>
#include <fstream>

#include <gtest/gtest.h>

#include "places.h"
#include "render.h"

namespace neuronmm::text::jinja {
namespace {

using Json = nlohmann::ordered_json;

Json golden() {
  std::ifstream file(source_dir() / "tests/text/jinja/golden.json");
  return Json::parse(file);
}

class Golden : public testing::Test {
 protected:
  // The function strftime_now shows local time.
  static void SetUpTestSuite() {
    setenv("TZ", "UTC", 1);
    tzset();
  }

  void expect(const std::string& source, const Json& context, const Json& text) const {
    const auto ours = render(source, context, options_);
    ASSERT_EQ(ours.ok(), text.is_string()) << source << "\n"
                                           << (ours.ok() ? ours->bytes : ours.error().message);
    if (ours.ok()) {
      EXPECT_EQ(ours->bytes, text) << source;
    } else {
      EXPECT_TRUE(ours.error().message.starts_with("test:")) << ours.error().message;
    }
  }

  const Json golden_ = golden();
  const RenderOptions options_{.limits = {}, .now = golden_["now"].get<std::time_t>()};
};

TEST_F(Golden, ConstructsRenderLikeJinja2) {
  int texts = 0;
  for (const Json& construct : golden_["constructs"]) {
    expect(construct["template"], golden_["context"], construct["text"]);
    texts += construct["text"].is_string();
  }
  EXPECT_GT(texts, 40);
}

TEST_F(Golden, WholeTemplatesRenderLikeJinja2) {
  int texts = 0;
  for (const Json& chat : golden_["templates"]) {
    for (const auto& [name, text] : chat["texts"].items()) {
      expect(chat["template"], golden_["conversations"][name], text);
      texts += text.is_string();
    }
  }
  EXPECT_GT(texts, 30);
}

}  // namespace
}  // namespace neuronmm::text::jinja
