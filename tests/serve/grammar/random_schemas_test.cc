// Tests with random schemas and documents. The automaton must accept a document in some order of
// its properties if and only if schema_validator.h says that the schema allows it.
//
// Schemas that the compiler refuses are skipped. A document that is accepted and not valid is
// skipped if the compiler's notes say that the grammar allows more than the schema.

#include <random>

#include "any_property_order.h"
#include "compiled.h"
#include "schema_validator.h"

namespace neuronmm::grammar {
namespace {

// There are only a few names and values, so that documents are often valid.
const std::vector<std::string> kNames = {"a", "b", "ab", "c"};
const std::vector<std::string> kStrings = {"", "a", "ab", "abc", "b1", "é", "日本", "\"\\\n", "ba"};
const std::vector<std::string> kPatterns = {"^a", "b$", "^[a-c]{1,2}$", "^(ab|b\\d)$", "[^a]", ""};

class RandomSchemas {
 public:
  explicit RandomSchemas(uint32_t seed) : random_(seed) {}

  Json root() {
    Json schema = this->schema(3);
    if (!schema.is_object()) return schema;
    schema["$defs"] = {{"x", this->schema(2)}, {"y", this->schema(1)}};
    return schema;
  }

  Json value(int depth) {
    switch (below(depth > 0 ? 7 : 5)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
        return below(14) - 3;
      case 3:
        return (4 * below(10) - 10 + 1 + below(3)) * 0.25;  // a third are whole
      case 4:
        return kStrings[static_cast<size_t>(below(kStrings.size()))];
      case 5: {
        Json array = Json::array();
        for (int i = below(4); i > 0; --i) array.push_back(value(depth - 1));
        return array;
      }
      default: {
        Json object = Json::object();
        for (const std::string& name : kNames) {
          if (below(2) == 0) object[name] = value(depth - 1);
        }
        return object;
      }
    }
  }

 private:
  int below(size_t n) { return static_cast<int>(random_() % n); }
  bool chance(int percent) { return below(100) < percent; }

  Json schema(int depth) {
    if (chance(8)) return chance(75);
    Json schema = Json::object();
    static const std::vector<std::string> kTypes = {"null",   "boolean", "integer", "number",
                                                    "string", "array",   "object"};
    const std::string type = kTypes[static_cast<size_t>(below(kTypes.size()))];
    if (chance(80)) schema["type"] = type;
    if (chance(10)) schema["type"] = {type, kTypes[static_cast<size_t>(below(kTypes.size()))]};
    if (type == "integer" || type == "number" || chance(5)) number(schema);
    if (type == "string" || chance(5)) string(schema);
    if (depth > 0 && (type == "array" || chance(5))) array(schema, depth);
    if (depth > 0 && (type == "object" || chance(10))) object(schema, depth);
    if (depth > 0 && chance(25)) combine(schema, depth);
    if (depth > 0 && chance(8)) schema["not"] = this->schema(depth - 1);
    if (depth > 0 && chance(8)) {
      for (const char* part : {"if", "then", "else"}) schema[part] = this->schema(depth - 1);
    }
    if (chance(8)) schema["enum"] = {value(1), value(1), value(0), value(0)};
    if (chance(3)) schema["const"] = value(1);
    if (depth < 3 && chance(6)) schema["$ref"] = chance(50) ? "#/$defs/x" : "#/$defs/y";
    return schema;
  }

  void number(Json& schema) {
    const auto bound = [&]() -> Json {
      if (chance(50)) return below(20) - 8;
      return (below(80) - 30) * 0.25;
    };
    for (const char* name : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      if (chance(25)) schema[name] = bound();
    }
    if (chance(15)) schema["multipleOf"] = 1 + below(4);
    if (chance(10)) schema["multipleOf"] = 0.25 * (1 + below(6));
  }

  void string(Json& schema) {
    if (chance(30)) schema["minLength"] = below(3);
    if (chance(30)) schema["maxLength"] = below(4);
    if (chance(30)) schema["pattern"] = kPatterns[static_cast<size_t>(below(kPatterns.size()))];
  }

  void array(Json& schema, int depth) {
    if (chance(60)) schema["items"] = this->schema(depth - 1);
    if (chance(30)) schema["minItems"] = below(3);
    if (chance(30)) schema["maxItems"] = below(4);
    if (chance(20)) {
      schema["contains"] = this->schema(depth - 1);
      if (chance(30)) schema["minContains"] = below(3);
      if (chance(30)) schema["maxContains"] = below(3);
    }
    if (chance(25)) schema["uniqueItems"] = true;
    if (chance(25)) schema["prefixItems"] = {this->schema(depth - 1), this->schema(depth - 1)};
  }

  void object(Json& schema, int depth) {
    for (const std::string& name : kNames) {
      if (chance(40)) schema["properties"][name] = this->schema(depth - 1);
      if (chance(20)) schema["required"].push_back(name);
    }
    if (chance(40)) schema["additionalProperties"] = chance(50) ? Json(false) : this->schema(0);
    if (chance(15))
      schema["patternProperties"][kPatterns[static_cast<size_t>(below(5))]] = this->schema(0);
    if (chance(10)) schema["propertyNames"] = {{"pattern", "^[ab]"}};
    if (chance(10)) schema["maxProperties"] = below(4);
    if (chance(10)) schema["minProperties"] = below(3);
    if (chance(10)) schema["dependentRequired"]["a"] = {"b"};
  }

  void combine(Json& schema, int depth) {
    static const std::vector<std::string> kCombinations = {"anyOf", "allOf", "oneOf"};
    Json& branches = schema[kCombinations[static_cast<size_t>(below(3))]];
    for (int i = 1 + below(2); i >= 0; --i) branches.push_back(this->schema(depth - 1));
  }

  std::mt19937 random_;
};

TEST(RandomSchemas, AcceptTheDocumentsThatAreValid) {
  constexpr uint32_t kSchemas = 1500;
  int compiled = 0, accepted = 0, refused = 0, impossible = 0, negations = 0;
  for (uint32_t seed = 1; seed <= kSchemas; ++seed) {
    RandomSchemas random(seed);
    const Json schema = random.root();
    const auto result = compile_schema(schema, "schema");
    const bool possible = result.ok();
    if (!possible && !result.error().message.starts_with("no document")) continue;
    ++(possible ? compiled : impossible);
    negations += possible && schema.dump().find("\"not\":{\"") != std::string::npos ? 1 : 0;
    std::optional<Automaton> automaton;
    if (possible) automaton.emplace(result->grammar, all_bytes());
    for (int i = 0; i < 40; ++i) {
      const Json value = random.value(2);
      const bool valid = validates(schema, value, schema);
      const bool matches = possible && AnyPropertyOrder(*automaton, schema).accepts(value);
      ++(matches ? accepted : refused);
      if (matches && !valid && !result->notes.empty()) continue;
      ASSERT_EQ(matches, valid) << "seed " << seed << "\n" << schema.dump() << "\n" << value.dump();
    }
  }
  EXPECT_GT(compiled, static_cast<int>(kSchemas) / 2);
  EXPECT_GT(impossible, 5);
  EXPECT_GT(negations, 30);
  EXPECT_GT(accepted, 3000);
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace neuronmm::grammar
