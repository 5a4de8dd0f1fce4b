#include "schema_validator.h"

#include <cmath>
#include <map>
#include <regex>
#include <string>

namespace neuronmm::grammar {
namespace {

using Value = nlohmann::ordered_json;

// Objects are equal in any order of their members.
bool equal(const Value& a, const Value& b) {
  if (a.is_primitive() || b.is_primitive()) return a == b;
  return nlohmann::json::parse(a.dump()) == nlohmann::json::parse(b.dump());
}

bool has_type(const Value& value, const std::string& type) {
  if (type == "integer")
    return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

bool type_holds(const Value& type, const Value& value) {
  if (type.is_string()) return has_type(value, type);
  for (const Value& one : type) {
    if (has_type(value, one)) return true;
  }
  return false;
}

bool number_holds(const Value& schema, double value) {
  if (schema.contains("minimum") && value < schema["minimum"]) return false;
  if (schema.contains("maximum") && value > schema["maximum"]) return false;
  if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) return false;
  if (schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"]) return false;
  if (!schema.contains("multipleOf")) return true;
  return std::fmod(value, schema["multipleOf"].get<double>()) == 0.0;
}

// Returns whether a part of the text matches. A pattern is compiled once, because that takes longer
// than most searches.
bool matches(const std::string& text, const std::string& pattern) {
  static std::map<std::string, std::regex> compiled;
  auto found = compiled.find(pattern);
  if (found == compiled.end()) found = compiled.emplace(pattern, std::regex(pattern)).first;
  return std::regex_search(text, found->second);
}

bool string_holds(const Value& schema, const std::string& value) {
  int length = 0;
  for (const char c : value) length += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  if (schema.contains("minLength") && length < schema["minLength"]) return false;
  if (schema.contains("maxLength") && length > schema["maxLength"]) return false;
  if (!schema.contains("pattern")) return true;
  return matches(value, schema["pattern"].get<std::string>());
}

bool array_holds(const Value& schema, const Value& value, const Value& root) {
  const auto size = static_cast<int64_t>(value.size());
  if (schema.contains("minItems") && size < schema["minItems"]) return false;
  if (schema.contains("maxItems") && size > schema["maxItems"]) return false;
  if (schema.value("uniqueItems", false)) {
    for (size_t i = 1; i < value.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (equal(value[i], value[j])) return false;
      }
    }
  }
  if (schema.contains("contains")) {
    int64_t found = 0;
    for (const Value& item : value) found += validates(schema["contains"], item, root);
    if (found < schema.value("minContains", int64_t{1})) return false;
    if (schema.contains("maxContains") && found > schema["maxContains"]) return false;
  }
  const size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
  for (size_t i = 0; i < value.size(); ++i) {
    if (i < prefix && !validates(schema["prefixItems"][i], value[i], root)) return false;
    if (i >= prefix && schema.contains("items") && !validates(schema["items"], value[i], root))
      return false;
  }
  return true;
}

bool property_holds(const Value& schema, const std::string& name, const Value& value,
                    const Value& root) {
  bool spoken_of = false;
  if (schema.contains("properties") && schema["properties"].contains(name)) {
    spoken_of = true;
    if (!validates(schema["properties"][name], value, root)) return false;
  }
  if (schema.contains("patternProperties")) {
    for (const auto& item : schema["patternProperties"].items()) {
      if (!matches(name, item.key())) continue;
      spoken_of = true;
      if (!validates(item.value(), value, root)) return false;
    }
  }
  if (spoken_of || !schema.contains("additionalProperties")) return true;
  return validates(schema["additionalProperties"], value, root);
}

bool object_holds(const Value& schema, const Value& value, const Value& root) {
  const auto size = static_cast<int64_t>(value.size());
  if (schema.contains("minProperties") && size < schema["minProperties"]) return false;
  if (schema.contains("maxProperties") && size > schema["maxProperties"]) return false;
  if (schema.contains("required")) {
    for (const Value& name : schema["required"]) {
      if (!value.contains(name.get<std::string>())) return false;
    }
  }
  for (const auto& item : value.items()) {
    if (!property_holds(schema, item.key(), item.value(), root)) return false;
    if (schema.contains("propertyNames") &&
        !validates(schema["propertyNames"], Value(item.key()), root))
      return false;
  }
  if (!schema.contains("dependentRequired")) return true;
  for (const auto& item : schema["dependentRequired"].items()) {
    if (!value.contains(item.key())) continue;
    for (const Value& name : item.value()) {
      if (!value.contains(name.get<std::string>())) return false;
    }
  }
  return true;
}

bool combination_holds(const Value& schema, const Value& value, const Value& root) {
  if (schema.contains("$ref")) {
    const nlohmann::json::json_pointer pointer(schema["$ref"].get<std::string>().substr(1));
    if (!validates(root.at(Value::json_pointer(pointer.to_string())), value, root)) return false;
  }
  if (schema.contains("allOf")) {
    for (const Value& branch : schema["allOf"]) {
      if (!validates(branch, value, root)) return false;
    }
  }
  if (schema.contains("not") && validates(schema["not"], value, root)) return false;
  if (schema.contains("if")) {
    const char* next = validates(schema["if"], value, root) ? "then" : "else";
    if (schema.contains(next) && !validates(schema[next], value, root)) return false;
  }
  for (const char* some : {"anyOf", "oneOf"}) {
    if (!schema.contains(some)) continue;
    int holding = 0;
    for (const Value& branch : schema[some]) holding += validates(branch, value, root);
    if (holding == 0 || (holding > 1 && std::string(some) == "oneOf")) return false;
  }
  return true;
}

bool holds(const Value& schema, const Value& value, const Value& root) {
  if (schema.contains("type") && !type_holds(schema["type"], value)) return false;
  if (schema.contains("const") && !equal(schema["const"], value)) return false;
  if (schema.contains("enum")) {
    bool found = false;
    for (const Value& one : schema["enum"]) found = found || equal(one, value);
    if (!found) return false;
  }
  if (value.is_number() && !number_holds(schema, value.get<double>())) return false;
  if (value.is_string() && !string_holds(schema, value)) return false;
  if (value.is_array() && !array_holds(schema, value, root)) return false;
  if (value.is_object() && !object_holds(schema, value, root)) return false;
  return combination_holds(schema, value, root);
}

}  // namespace

// A schema that refers to itself for the same value would recurse without end, so the depth is
// limited. The compiler refuses such a schema unless no value reaches it.
bool validates(const Value& schema, const Value& value, const Value& root) {
  constexpr int kEndless = 500;
  static thread_local int depth = 0;
  if (schema.is_boolean()) return schema.get<bool>();
  if (depth > kEndless) return false;
  ++depth;
  const bool valid = holds(schema, value, root);
  --depth;
  return valid;
}

}  // namespace neuronmm::grammar
