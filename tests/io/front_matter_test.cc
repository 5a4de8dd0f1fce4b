// Tests reading the license from the front matter of a README.md.
#include "io/front_matter.h"

#include <gtest/gtest.h>

namespace neuronmm::io {
namespace {

TEST(FrontMatter, LicenseLinesAreCopied) {
  EXPECT_EQ(license_lines("---\nlicense: apache-2.0\n---\n# Model"), "license: apache-2.0\n");
  EXPECT_EQ(license_lines("---\r\nlanguage:\r\n- en\r\nlicense: mit\r\n---\r\n"), "license: mit\n");
  EXPECT_EQ(license_lines("---\nlicense: other\nlicense_name: llama3.2\n"
                          "license_link: https://x.org/LICENSE\npipeline_tag: z\n---\n"),
            "license: other\nlicense_name: llama3.2\nlicense_link: https://x.org/LICENSE\n");
}

TEST(FrontMatter, LinesOutsideFrontMatterAreIgnored) {
  EXPECT_EQ(license_lines(""), "");
  EXPECT_EQ(license_lines("# Model\nlicense: mit\n"), "");
  EXPECT_EQ(license_lines("---\nlicense: mit\nno end"), "");
  EXPECT_EQ(license_lines("---\ntags:\n- x\n---\nlicense: mit\n---\n"), "");
  EXPECT_EQ(license_lines("---\n  license: mit\n---\n"), "") << "a field of another one";
}

// The copied lines become part of other front matter, which must stay a list of fields.
TEST(FrontMatter, ValuesThatNeedQuotesAreLeftOut) {
  for (const char* value : {"", " ", "mit", " a b", " \"mit\"", " [mit, x]", " >", " a#b", " &x"}) {
    EXPECT_EQ(license_lines(std::string("---\nlicense:") + value + "\n---\n"), "") << value;
  }
}

}  // namespace
}  // namespace neuronmm::io
