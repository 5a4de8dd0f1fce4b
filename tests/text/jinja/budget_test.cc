// Tests that templates are stopped if they would run forever, fill the memory or exhaust the stack.

#include <gtest/gtest.h>

#include "render.h"

namespace neuronmm::text::jinja {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

void expect_stopped(const std::string& source, const Limits& limits = {}) {
  const std::string result = text_or_error(source, {}, {.limits = limits, .now = 0});
  EXPECT_TRUE(result.starts_with("error: test:")) << source << ": " << result.substr(0, 100);
}

TEST(Budget, EndlessTemplatesAreStopped) {
  const std::string loops =
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  expect_stopped(loops, {.steps = 1'000'000});
  expect_stopped("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}");
}

TEST(Budget, TemplatesThatFillTheMemoryAreStopped) {
  for (const char* source :
       {"{{ 'x' * 10000000000 }}", "{{ [1] * 10000000000 }}", "{{ 'x'.center(10000000000) }}",
        "{{ '%10000000000d' % 1 }}", "{{ '{:>10000000000}'.format(1) }}",
        "{{ 'a' | indent(10000000000, true) }}", "{{ 'x'.zfill(10000000000) }}",
        "{{ [1] | tojson(indent=10000000000) }}", "{{ [1] | batch(10000000000, 0) | list }}",
        "{{ [1] | slice(10000000000) | list }}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% "
        "endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% "
        "endfor %}",
        "{% set ns = namespace(s='xxxxxxxxxx') %}{% for i in range(9) %}{% set ns.s = "
        "ns.s.replace('x', ns.s) %}{% endfor %}",
        "{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}"}) {
    expect_stopped(source, {.bytes = size_t{64} << 20, .output_bytes = size_t{1} << 20});
  }
}

// Lists that contain one list twice are short to make but long to go through.
TEST(Budget, ValuesThatShareListsAreCharged) {
  const std::string nested =
      "{% set a = namespace(l=[]) %}{% set b = namespace(l=[]) %}{% for i in range(60) %}"
      "{% set a.l = [a.l, a.l] %}{% set b.l = [b.l, b.l] %}{% endfor %}";
  expect_stopped(nested + "{{ a.l == b.l }}", {.steps = 1'000'000});
  expect_stopped(nested + "{{ a.l }}", {.bytes = size_t{16} << 20});
  expect_stopped(nested + "{{ a.l | tojson }}", {.bytes = size_t{16} << 20});
}

TEST(Budget, DeepNestingIsStopped) {
  expect_stopped("{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}");
  expect_stopped("{{ " + repeated("[", 100000) + " }}");
  expect_stopped("{{ " + repeated("-", 100000) + "1 }}");
  expect_stopped("{{ " + repeated("not ", 100000) + "1 }}");
  expect_stopped("{{ 1" + repeated("+1", 100000) + " }}");
  expect_stopped("{{ x" + repeated(".x", 100000) + " }}");
  expect_stopped("{{ x" + repeated("|list", 100000) + " }}");
  expect_stopped(repeated("{% if 1 %}", 100000));
  expect_stopped("{% set " + repeated("(", 100000) + "a = 1 %}");
  expect_stopped("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  expect_stopped(
      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor "
      "%}");
  expect_stopped(
      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = ns.l | map('list') "
      "%}{% endfor %}");
}

// Each of these searches would compare 10^11 bytes or more if it took quadratic time.
TEST(Budget, SearchesForTheWorstTextsEndSoon) {
  const std::string texts = "{% set a = 'a' * 2000000 %}{% set b = 'a' * 200000 ~ 'b' %}";
  for (const char* linear :
       {"{{ a.find(b) }}", "{{ b in a }}", "{{ a.count(b) }}", "{{ a.replace(b, '') | length }}",
        "{{ a.split(b) | length }}", "{{ a.partition(b) | length }}"}) {
    const std::string result = text_or_error(texts + linear);
    EXPECT_FALSE(result.starts_with("error")) << linear << result;
  }
  for (const char* quadratic : {"{{ a.rfind(b) }}", "{{ a.rsplit(b) }}", "{{ a.rpartition(b) }}",
                                "{{ a.strip(('b' * 100000) ~ 'a') }}"})
    expect_stopped(texts + quadratic, {.steps = 1'000'000});
}

TEST(Budget, ManyFieldsAreCharged) {
  expect_stopped("{{ ('{0}' * 200000).format('') }}", {.steps = 100'000});
  expect_stopped("{{ ('%(a)s' * 200000) % {'a': ''} }}", {.steps = 100'000});
}

// The number of characters is asked for in a loop, so it must not be counted each time.
TEST(Budget, TextsKeepTheirLength) {
  EXPECT_EQ(text_or_error("{% set a = '\u00e9' * 1000000 %}{% set ns = namespace(n=0) %}"
                          "{% for i in range(100000) %}{% set ns.n = ns.n + a | length %}{% endfor "
                          "%}{{ ns.n }}"),
            "100000000000");
}

// One part is made for each line, so the lines must not fill the memory before the parts do.
TEST(Budget, ManyLinesAreCharged) {
  const Limits limits = {.bytes = size_t{32} << 20};
  for (const char* source :
       {"{{ ('\n' * 10000000).splitlines() | length }}", "{{ (' ,' * 5000000).split(',') }}",
        "{{ ('a ' * 5000000).rsplit() }}", "{{ ('\n' * 10000000) | indent }}"})
    expect_stopped(source, limits);
}

TEST(Budget, LongTemplatesAreRefused) {
  std::string names, branches = "{% if a %}";
  for (int i = 0; i < 20000; ++i) {
    names += "{% set a" + std::to_string(i) + " = 1 %}";
    branches += "{% elif a %}";
  }
  expect_stopped(names + branches + "{% endif %}");
  std::string arguments;
  for (int i = 0; i < 20000; ++i) arguments += "a" + std::to_string(i) + "=1,";
  expect_stopped("{{ namespace(" + arguments + ") }}");
}

// Values that contain themselves must be released, which the sanitizers check.
TEST(Budget, ValuesInCyclesAreReleased) {
  EXPECT_EQ(
      text_or_error("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me is defined }}"),
      "True");
  EXPECT_EQ(
      text_or_error("{% set ns = namespace() %}{% macro f() %}{{ ns is defined }}{% endmacro %}"
                    "{% set ns.f = f %}{{ ns.f() }}"),
      "True");
  EXPECT_EQ(text_or_error("{% set ns = namespace() %}{% for x in [1, 2] %}{% set ns.l = loop %}"
                          "{% set y = loop.changed(loop) %}{% endfor %}{{ ns.l.index }}"),
            "2");
}

}  // namespace
}  // namespace neuronmm::text::jinja
