// Tests that messages name the template, the position in it and what was found.

#include <gtest/gtest.h>

#include "render.h"

namespace neuronmm::text::jinja {
namespace {

TEST(Errors, NameLineAndColumn) {
  EXPECT_EQ(text_or_error("a\n{{ b c }}"), "error: test:2:6: expected }}, found 'c'");
  EXPECT_EQ(text_or_error("{% if x %}\n"),
            "error: test:1:11: expected {% endif %}, found the end of the template");
  EXPECT_EQ(text_or_error("\n\n  {% frob %}"),
            "error: test:3:6: expected a tag of chat templates, found 'frob'");
  EXPECT_EQ(text_or_error("x\n {{ y.z.a }}"), "error: test:2:6: 'y' is undefined");
  EXPECT_EQ(text_or_error("{{ none.x.y }}"), "error: test:1:10: 'None' has no attribute 'x'");
  EXPECT_EQ(text_or_error("{{ 1 +\n 'a' }}"),
            "error: test:1:4: unsupported operand type(s) for +: 'int' and 'str'");
  EXPECT_EQ(text_or_error("{{ 'abc }}"),
            "error: test:1:4: expected the end of a string, found the end of the template");
  EXPECT_EQ(text_or_error("{{ 1 | frob }}"), "error: test:1:8: no filter named 'frob'");
  EXPECT_EQ(text_or_error("{{ raise_exception('only ' ~ 2) }}"), "error: test:1:19: only 2");
  EXPECT_EQ(text_or_error("{% macro f() %}\n{{ g() }}{% endmacro %}{{ f() }}"),
            "error: test:2:5: 'g' is undefined");
}

// Python's integers are unlimited and ours are not. The result must never be a wrong number.
TEST(Errors, IntegersBeyond64BitsAreErrors) {
  EXPECT_EQ(text_or_error("{{ 9223372036854775807 }}"), "9223372036854775807");
  EXPECT_EQ(text_or_error("{{ -9223372036854775807 - 1 }}"), "-9223372036854775808");
  for (const char* source :
       {"{{ 9223372036854775808 }}", "{{ 9223372036854775807 + 1 }}", "{{ 2 ** 63 }}",
        "{{ 9223372036854775807 * 2 }}", "{{ '9223372036854775808' | int }}", "{{ 1e19 | int }}",
        "{{ (-9223372036854775807 - 1) | abs }}", "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ 9000000000000000000 | round(-19) }}",
        "{{ range(-9223372036854775807, 0, 4611686018427387904)[::-1] }}",
        "{{ range(0, 10, 2)[::9223372036854775807] }}"}) {
    EXPECT_NE(text_or_error(source).find("64 bits"), std::string::npos) << text_or_error(source);
  }
  EXPECT_EQ(text_or_error("{{ 5000000000000000000 | round(-19) }}"), "0");
  EXPECT_EQ(text_or_error("{{ 'abc' | truncate(9223372036854775807) }}"), "abc");
  EXPECT_NE(text_or_error("{{ '%*d' % (-9223372036854775807 - 1, 1) }}").find("width"),
            std::string::npos);
}

// The names before ** and the keys of the dict must differ.
TEST(Errors, NamesOfArgumentsDiffer) {
  EXPECT_EQ(text_or_error("{{ dict(a=1, **{'b': 2}) }}"), "{'a': 1, 'b': 2}");
  EXPECT_NE(text_or_error("{{ dict(a=1, **{'a': 2}) }}").find("multiple values"),
            std::string::npos);
}

// Bytes that are not UTF-8 count as characters and stay as they are.
TEST(Errors, BytesThatAreNotUtf8StayAsTheyAre) {
  const nlohmann::ordered_json context = {{"s", "a\xFF\xC3"}};
  EXPECT_EQ(
      text_or_error("{{ s }}|{{ s | length }}|{{ s[1] }}|{{ s[::-1] }}|{{ s.upper() }}", context),
      "a\xFF\xC3|3|\xFF|\xC3\xFF"
      "a|A\xFF\xC3");
}

}  // namespace
}  // namespace neuronmm::text::jinja
