// Tests which bytes of a rendered text are marked as coming from messages. The letters of messages
// are upper case and those of templates are lower case, so that the case tells the origin of each
// letter. Other characters may come from either.

#include <gtest/gtest.h>

#include "render.h"

namespace neuronmm::text::jinja {
namespace {

using Json = nlohmann::ordered_json;

bool is_marked(const Text& text, size_t at) {
  for (const Span& span : text.from_messages) {
    if (span.begin <= at && at < span.end) return true;
  }
  return false;
}

// Returns the text with brackets around the ranges that come from messages.
std::string marked(const Text& text) {
  std::string out;
  size_t at = 0;
  for (const Span& span : text.from_messages) {
    out += text.bytes.substr(at, span.begin - at);
    out += '[' + text.bytes.substr(span.begin, span.end - span.begin) + ']';
    at = span.end;
  }
  return out + text.bytes.substr(at);
}

const Json kContext = {
    {"messages", {{{"role", "user"}, {"content", " ABC DEF\nGHI "}, {"parts", {"X", "Y"}}}}}};

std::string shown(const std::string& expression) {
  const auto text =
      render("{% set m = messages[0] %}{% set c = m.content %}{{ " + expression + " }}", kContext);
  return text.ok() ? marked(*text) : "error: " + text.error().message;
}

TEST(Provenance, EveryOperationKeepsTheMarks) {
  EXPECT_EQ(shown("c"), "[ ABC DEF\nGHI ]");
  EXPECT_EQ(shown("m.role"), "user");
  EXPECT_EQ(shown("'<' + c | trim ~ m.role ~ '>'"), "<[ABC DEF\nGHI]user>");
  EXPECT_EQ(shown("'a%sb%d' % (c[1:4], 5)"), "a[ABC]b5");
  EXPECT_EQ(shown("c.strip().split(' ') | join('-')"), "[ABC]-[DEF\nGHI]");
  EXPECT_EQ(shown("c.split() | map('lower') | list"), "['[abc]', '[def]', '[ghi]']");
  EXPECT_EQ(shown("c[::-1]"), "[ IHG\nFED CBA ]");
  EXPECT_EQ(shown("c[2] ~ 'x' ~ c[2]"), "[B]x[B]");
  EXPECT_EQ(shown("c.replace('B', 'b')"), "[ A]b[C DEF\nGHI ]");
  EXPECT_EQ(shown("'a_b'.replace('_', c[1:4])"), "a[ABC]b");
  EXPECT_EQ(shown("c.strip() | tojson"), "\"[ABC DEF\\nGHI]\"");
  EXPECT_EQ(shown("m.parts | tojson"), "[\"[X]\", \"[Y]\"]");
  EXPECT_EQ(shown("c | upper | title"), "[ Abc Def\nGhi ]");
  EXPECT_EQ(shown("c.strip().center(13, '*')"), "*[ABC DEF\nGHI]*");
  EXPECT_EQ(shown("c.strip() | indent(2)"), "[ABC DEF]\n  [GHI]");
  EXPECT_EQ(shown("'{}|{:>4}'.format(c[1:4], c[5:8])"), "[ABC]| [DEF]");
  EXPECT_EQ(shown("'<' ~ c[1:4] | e"), "<[ABC]");
  EXPECT_EQ(shown("(c[1:4] * 2) ~ c | length"), "[ABCABC]13");
  EXPECT_EQ(shown("'%s' | format(c[1:4]) | reverse"), "[CBA]");
  EXPECT_EQ(shown("dict(x=c[1:4])"), "{'x': '[ABC]'}");
  EXPECT_EQ(shown("c[1:6] | truncate(4, true, '..', 0)"), "[AB]..");
}

TEST(Provenance, BlocksKeepTheMarks) {
  const auto text = render(
      "{% macro wrap(x) %}({{ x }}){% endmacro %}{% set b %}b{{ messages[0].content | trim }}"
      "{% endset %}{{ wrap(b) }}{% filter lower %}{{ messages[0].parts[0] }}y{% endfilter %}",
      kContext);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(marked(*text), "(b[ABC DEF\nGHI])[x]y");
}

// A role that could hold more than a name is text like any other.
TEST(Provenance, OnlyRolesThatAreNamesArePartOfTheTemplate) {
  const std::string source = "{{ messages[0].role }}";
  EXPECT_EQ(marked(*render(source, {{"messages", {{{"role", "tool-call_2 x"}}}}})),
            "tool-call_2 x");
  EXPECT_EQ(marked(*render(source, {{"messages", {{{"role", "a|>"}}}}})), "[a|>]");
}

TEST(Provenance, OnlyTheLettersOfMessagesAreMarked) {
  const Json context = {{"messages",
                         {{{"role", "user"},
                           {"content", "ÀÉ <|X|> Ω\t Q"},
                           {"name", "N"},
                           {"calls", {{{"A", 1.5}, {"B", {"C", nullptr}}}}}}}}};
  const auto text = render(
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ m.calls | tojson(indent=1) }}"
      "{% for k, v in m.items() if k != 'role' and v is string %}{{ v.split() }}{% endfor %}"
      "{{ m.content[2:] | replace('|', 'pipe') }}{{ '%r' % m.name }}{% endfor %}",
      context);
  ASSERT_TRUE(text.ok()) << text.error().message;
  int letters = 0;
  for (size_t i = 0; i < text->bytes.size(); ++i) {
    const char c = text->bytes[i];
    const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
    EXPECT_TRUE(!upper || is_marked(*text, i)) << text->bytes.substr(i);
    EXPECT_TRUE(!lower || !is_marked(*text, i)) << text->bytes.substr(i);
    letters += upper;
  }
  EXPECT_GT(letters, 8);
}

}  // namespace
}  // namespace neuronmm::text::jinja
