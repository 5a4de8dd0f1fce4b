#include "hostile_formats.h"

#include <functional>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "known_patterns.h"

namespace neuronmm::grammar {
namespace {

using TestJson = nlohmann::json;

class Random {
 public:
  explicit Random(uint32_t seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  // Returns a number up to 10^digits, small and large ones equally often.
  int size(int digits) {
    int number = 1 + below(9);
    for (int i = below(digits); i > 0; --i) number = number * 10 + below(10);
    return number;
  }
  template <typename T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(below(static_cast<int>(choices.size())))];
  }
  std::string atom() {
    static const std::vector<std::string> kAtoms = {
        "a",   "ab",       "[a-z]",   "\\w",      "\\d",      ".",      "\\s",        "[^x]",
        "\\S", "[0-9a-f]", "(?:a|b)", "(?:a|aa)", "(?:x+x+)", "\\p{L}", "[\\p{Lu}_]", "é"};
    return one_of(kAtoms);
  }

 private:
  std::mt19937 random_;
};

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

std::string character(int code_point) { return fmt::format("\\u{{{:x}}}", code_point); }

// Repeats within repeats, which take backtracking engines exponential time.
std::string nested_repeats(Random& random) {
  static const std::vector<std::string> kRepeats = {"*", "+", "{2,}", "{1,9}", "?", "{3}"};
  std::string pattern = random.atom();
  for (int i = 2 + random.below(4); i > 0; --i)
    pattern = fmt::format("(?:{}{})", pattern, random.one_of(kRepeats));
  const std::string end = random.one_of<std::string>({"$", "!", "\\d+$", "[A-Z]$", "@x\\.y$"});
  return (random.below(2) == 0 ? "^" : "") + pattern + random.one_of(kRepeats) + end;
}

// Counts within counts.
std::string nested_counts(Random& random) {
  std::string pattern = random.atom();
  for (int i = 1 + random.below(4); i > 0; --i) {
    const int least = random.size(4);
    pattern = random.below(2) == 0
                  ? fmt::format("({}){{{}}}", pattern, least)
                  : fmt::format("({}){{{},{}}}", pattern, least, least + random.size(5));
  }
  return pattern;
}

// A character that must be far from the end: 2^n states.
std::string far_from_the_end(Random& random) {
  const std::string any = random.one_of<std::string>({"[ab]", ".", "\\w", "\\p{L}", "(?:a|b|c)"});
  return fmt::format("^{}*a{}{{{}}}$", any, any, 4 + random.below(60));
}

// Properties of characters, whose sets have hundreds of ranges.
std::string counted_properties(Random& random) {
  static const std::vector<std::string> kNames = {"L",
                                                  "Lu",
                                                  "Ll",
                                                  "N",
                                                  "P",
                                                  "S",
                                                  "Alphabetic",
                                                  "ID_Start",
                                                  "Uppercase",
                                                  "Script=Greek",
                                                  "Script=Cyrillic",
                                                  "Script=Arabic",
                                                  "sc=Han",
                                                  "scx=Latin",
                                                  "Emoji",
                                                  "gc=Mn",
                                                  "Zs",
                                                  "So"};
  std::string set;
  for (int i = 1 + random.below(12); i > 0; --i)
    set += fmt::format("\\{}{{{}}}", random.below(4) == 0 ? 'P' : 'p', random.one_of(kNames));
  return fmt::format("[{}{}]{{{}}}", random.below(4) == 0 ? "^" : "", set, random.size(6));
}

std::string large_class(Random& random) {
  std::string set;
  const int count = random.size(5), step = 2 + random.below(3);
  for (int i = 0; i < count; ++i) set += character(0x100 + (i * step * 7919) % 0xD000);
  return fmt::format("[{}]{{{}}}", set, random.size(3));
}

std::string lookaheads(Random& random) {
  std::string pattern;
  const int count = 1 + random.below(15);
  const bool nested = random.below(2) == 0;
  for (int i = 0; i < count; ++i) {
    const std::string seen = fmt::format(".*{}.{{{}}}", random.atom(), random.size(3));
    pattern += fmt::format("(?{}{}{}", random.below(2) == 0 ? '=' : '!', nested ? "^" : "", seen);
    if (!nested) pattern += ")";
  }
  return "^" + pattern + (nested ? repeated(")", count) : "") + ".*$";
}

// Pieces that read nothing, which an automaton has to pass without end.
std::string empty_loops(Random& random) {
  const std::string nothing =
      random.one_of<std::string>({"(?:)", "(?:|)", "(?:^|$)", "(?:a?)", "(?:a*)", "(?:a*|b*)?"});
  return fmt::format("(?:{}{{{}}}){{{}}}", repeated(nothing, random.size(2)), random.size(6),
                     random.size(6));
}

std::string many_alternatives(Random& random) {
  std::string pattern = "(?:";
  const int count = random.size(5);
  for (int i = 0; i < count; ++i)
    pattern += fmt::format("{}{}", i == 0 ? "" : "|", (i * 7919) % 1'000'003);
  return pattern + fmt::format("){{{}}}", random.size(3));
}

std::string deep_groups(Random& random) {
  const int depth = 90 + random.below(20);
  return repeated("(", depth) + random.atom() +
         repeated(random.one_of<std::string>({")*", "){2}", ")?", "){1,3}"}), depth);
}

TestJson reference(const std::string& name) { return {{"$ref", "#/$defs/" + name}}; }

// Lists in lists, of many items each.
TestJson recursive_lists(Random& random) {
  TestJson item = {{"type", "array"}, {"items", {{"$ref", "#"}}}, {"minItems", random.size(6)}};
  if (random.below(2) == 0) item["maxItems"] = item["minItems"].get<int>() + random.size(5);
  TestJson schema = {{"anyOf", {item, {{"type", "null"}}}}};
  for (int i = random.below(6); i > 0; --i) {
    item["minItems"] = random.size(5);
    schema["anyOf"].push_back(item);
  }
  return schema;
}

// Definitions that combine others, so that each set of them becomes a rule.
TestJson combined_definitions(Random& random) {
  TestJson schema = reference("d0");
  const int count = 2 + random.below(30), stride = 1 + random.below(5);
  for (int i = 0; i < count; ++i) {
    const auto other = [&](int k) { return reference(fmt::format("d{}", k % count)); };
    TestJson list = {{"type", random.one_of<std::string>({"array", "object"})}};
    const TestJson all = {{"allOf", {other(i + 1), other(stride * i + 2)}}};
    list["items"] = all;
    list["additionalProperties"] = all;
    list["minItems"] = random.below(random.size(4));
    schema["$defs"][fmt::format("d{}", i)] = list;
  }
  return schema;
}

TestJson combinations(Random& random) {
  TestJson schema = TestJson::object();
  const char* keyword = random.one_of<const char*>({"anyOf", "oneOf"});
  for (int i = 1 + random.below(40); i > 0; --i) {
    TestJson any;
    for (int k = 2 + random.below(6); k > 0; --k)
      any[keyword].push_back({{"type", "object"},
                              {"required", {fmt::format("p{}", i * k)}},
                              {"properties", {{fmt::format("q{}", k), {{"minLength", i}}}}}});
    schema["allOf"].push_back(any);
  }
  return schema;
}

TestJson negations(Random& random) {
  TestJson schema = {{"type", "object"}};
  for (int i = 1 + random.below(30); i > 0; --i) {
    const std::string name = fmt::format("p{}", i);
    const TestJson needed = {{"required", {name}},
                             {"properties", {{name, {{"pattern", random.atom() + "{3,9}x"}}}}}};
    if (random.below(2) == 0) {
      schema["allOf"].push_back({{"if", needed}, {"then", {{"required", {"x"}}}}});
    } else {
      schema["not"]["anyOf"].push_back(needed);
    }
  }
  return schema;
}

TestJson many_properties(Random& random) {
  TestJson schema = {{"type", "object"}};
  const int count = random.size(5);
  const TestJson value =
      random.below(2) == 0 ? TestJson{{"type", "integer"}} : TestJson{{"$ref", "#"}};
  for (int i = 0; i < count; ++i) schema["properties"][fmt::format("p{}", i)] = value;
  if (random.below(2) == 0) schema["maxProperties"] = random.size(4);
  if (random.below(3) == 0) schema["additionalProperties"] = value;
  return schema;
}

TestJson name_patterns(Random& random) {
  TestJson schema = {{"type", "object"}};
  for (int i = 1 + random.below(12); i > 0; --i)
    schema["patternProperties"][fmt::format("{}{{{}}}{}", random.atom(), random.size(3), i)] = {
        {"type", "integer"}};
  schema["propertyNames"] = {{"maxLength", random.size(4)}, {"pattern", random.atom()}};
  return schema;
}

TestJson counts(Random& random) {
  const TestJson null = {{"type", "null"}};
  const int least = random.size(6), most = least + random.size(6);
  return random.one_of<TestJson>({
      {{"type", "array"}, {"contains", null}, {"minContains", least}, {"maxContains", most}},
      {{"type", "array"}, {"contains", null}, {"minContains", least}, {"minItems", most}},
      {{"type", "object"}, {"maxProperties", most}, {"minProperties", 1}},
      {{"type", "array"},
       {"prefixItems", TestJson(std::vector<TestJson>(static_cast<size_t>(least % 20'000), null))}},
      {{"type", "string"}, {"minLength", least}, {"maxLength", most}},
      {{"type", "string"}, {"minLength", least}, {"pattern", random.atom() + "+"}},
      {{"type", "string"},
       {"maxLength", most},
       {"format", random.one_of<std::string>({"email", "uri", "ipv6", "date-time", "regex"})}},
  });
}

TestJson constants(Random& random) {
  TestJson values = TestJson::array();
  const int count = random.size(4);
  for (int i = 0; i < count; ++i)
    values.push_back(random.below(2) == 0 ? TestJson(fmt::format("value {}", i))
                                          : TestJson{{"a", {i, {{"b", i % 7}}}}});
  const TestJson item = {{"enum", values}};
  return random.one_of<TestJson>({{{"type", "array"}, {"uniqueItems", true}, {"items", item}},
                                  {{"oneOf", {item, item, {{"type", "string"}}}}},
                                  {{"allOf", {item, item, {{"not", {{"enum", {"value 1"}}}}}}}},
                                  {{"type", "object"}, {"additionalProperties", item}}});
}

TestJson numbers(Random& random) {
  TestJson schema = {{"type", "number"}};
  for (int i = 1 + random.below(30); i > 0; --i)
    schema["allOf"].push_back({{"multipleOf", random.size(8) * 0.001}});
  if (random.below(2) == 0) schema["minimum"] = -1e300;
  if (random.below(2) == 0) schema["maximum"] = 1.0 / (1 + random.below(1000));
  return schema;
}

TestJson many_references(Random& random) {
  TestJson schema;
  const int count = random.size(5);
  for (int i = 0; i < count; ++i) {
    const std::string name = fmt::format("d{}", i);
    schema["$defs"][name] = {{"const", i}};
    schema["anyOf"].push_back(reference(name));
  }
  return schema;
}

TestJson unevaluated(Random& random) {
  TestJson schema = {{"type", "object"}, {"unevaluatedProperties", false}};
  for (int i = 1 + random.below(6); i > 0; --i) {
    TestJson branch;
    for (int k = random.size(3); k > 0; --k)
      branch["properties"][fmt::format("p{}_{}", i, k)] = {{"$ref", "#"}};
    schema["anyOf"].push_back(branch);
  }
  schema["dependentSchemas"]["p1_1"] = {{"required", {"p1_2"}}};
  return schema;
}

TestJson long_strings(Random& random) {
  TestJson schema = {{"type", "object"}};
  for (int i = 1 + random.below(60); i > 0; --i)
    schema["properties"][fmt::format("p{}", i)] = {
        {"type", "string"},
        {"maxLength", random.size(5)},
        {"pattern",
         fmt::format("^(?:{}+{}){{0,{}}}$", random.atom(), random.atom(), random.size(3))}};
  return schema;
}

// Many ways to read the same text, which the automaton follows side by side.
TestJson ambiguous_values(Random& random) {
  TestJson schema;
  for (int i = 1 + random.below(200); i > 0; --i) {
    TestJson list = {{"type", "array"}, {"items", {{"$ref", "#"}}}, {"minItems", i % 5}};
    if (random.below(2) == 0)
      list["prefixItems"] =
          TestJson(std::vector<TestJson>(static_cast<size_t>(i), {{"$ref", "#"}}));
    schema["anyOf"].push_back(list);
  }
  schema["anyOf"].push_back({{"type", "string"}});
  return schema;
}

struct Kind {
  const char* name;
  std::function<std::string(Random&)> pattern;
  std::function<TestJson(Random&)> schema;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = {
      {"nested repeats", nested_repeats, {}},
      {"nested counts", nested_counts, {}},
      {"far from the end", far_from_the_end, {}},
      {"counted properties", counted_properties, {}},
      {"large class", large_class, {}},
      {"lookaheads", lookaheads, {}},
      {"empty loops", empty_loops, {}},
      {"many alternatives", many_alternatives, {}},
      {"deep groups", deep_groups, {}},
      {"recursive lists", {}, recursive_lists},
      {"combined definitions", {}, combined_definitions},
      {"combinations", {}, combinations},
      {"negations", {}, negations},
      {"many properties", {}, many_properties},
      {"name patterns", {}, name_patterns},
      {"counts", {}, counts},
      {"constants", {}, constants},
      {"numbers", {}, numbers},
      {"many references", {}, many_references},
      {"unevaluated", {}, unevaluated},
      {"long strings", {}, long_strings},
      {"ambiguous values", {}, ambiguous_values},
  };
  return kKinds;
}

}  // namespace

std::vector<HostileFormat> hostile_formats(int count, uint32_t seed) {
  Random random(seed);
  std::vector<HostileFormat> formats;
  for (const std::string& pattern : known_hostile_patterns())
    formats.push_back({"publicly known", true, pattern});
  for (int i = static_cast<int>(formats.size()); i < count; ++i) {
    const Kind& kind = kinds()[static_cast<size_t>(i) % kinds().size()];
    if (kind.pattern && random.below(3) == 0) {  // a pattern within a schema
      const TestJson schema = {
          {"type", "string"}, {"pattern", kind.pattern(random)}, {"maxLength", random.size(5)}};
      formats.push_back({kind.name, false, schema.dump()});
    } else if (kind.pattern) {
      formats.push_back({kind.name, true, kind.pattern(random)});
    } else {
      formats.push_back({kind.name, false, kind.schema(random).dump()});
    }
  }
  return formats;
}

// The keys are sorted first, because inserting them one by one into an object that keeps their
// order takes quadratic time.
Result<CompiledGrammar> compile(const HostileFormat& format, const std::string& source,
                                Budget& budget) {
  if (format.is_pattern) return compile_text(format.text, source, &budget);
  const Json schema = TestJson::parse(format.text);
  return compile_schema(schema, source, {.closed_objects = true, .budget = &budget});
}

}  // namespace neuronmm::grammar
