#include "serve/output/tool_parameter.h"

#include <algorithm>
#include <set>

#include "serve/output/json_scanner.h"
#include "serve/output/python_literal.h"

namespace neuronmm::serve {
namespace {

// Adds the types that a schema names, or the types of the constants in its enum. If the schema
// gives no types, "any" is added.
void add_types(const Json& schema, std::set<std::string>& types) {
  const auto field = [&](const char* key) {
    const auto found = schema.is_object() ? schema.find(key) : schema.end();
    return found == schema.end() ? nullptr : &*found;
  };
  const Json *type = field("type"), *some = field("anyOf"), *constants = field("enum");
  if (some == nullptr) some = field("oneOf");
  if (type != nullptr) {
    for (const Json& name : type->is_array() ? *type : Json::array({*type}))
      types.insert(name.is_string() ? name.get<std::string>() : "any");
  } else if (some != nullptr && some->is_array()) {
    for (const Json& branch : *some) add_types(branch, types);
  } else if (constants != nullptr && constants->is_array()) {
    for (const Json& value : *constants)
      types.insert(value.is_string() ? "string" : value.is_null() ? "null" : "any");
  } else {
    types.insert("any");
  }
}

const Json* schema_of(const std::vector<Tool>& tools, std::string_view function,
                      const std::string& name) {
  const auto tool = std::ranges::find(tools, function, &Tool::name);
  if (tool == tools.end()) return nullptr;
  const auto properties = tool->parameters.find("properties");
  if (properties == tool->parameters.end() || !properties->is_object()) return nullptr;
  const auto schema = properties->find(name);
  return schema == properties->end() || !schema->is_object() || schema->empty() ? nullptr
                                                                                : &*schema;
}

std::string json_string(std::string_view text) { return "\"" + escaped(text) + "\""; }

}  // namespace

ParameterKind parameter_kind(const std::vector<Tool>& tools, std::string_view function,
                             const std::string& name) {
  const Json* schema = schema_of(tools, function, name);
  if (schema == nullptr) return ParameterKind::kString;
  std::set<std::string> types;
  add_types(*schema, types);
  if (types == std::set<std::string>{"string"}) return ParameterKind::kString;
  if (types == std::set<std::string>{"null", "string"}) return ParameterKind::kStringOrNull;
  return ParameterKind::kJson;
}

std::string parameter_json(ParameterKind kind, const std::string& text) {
  if (kind == ParameterKind::kString) return json_string(text);
  if (kind == ParameterKind::kStringOrNull) return text == "null" ? "null" : json_string(text);
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (text == "None") return "null";
  auto value = parse_json_text(text, "");
  if (!value.ok() && text.find_first_of("[{(") < text.find_first_not_of(" \n\t\r[{(")) {
    if (const auto json = python_to_json(text)) value = parse_json_text(*json, "");
  }
  return value.ok() ? dump_json(*value) : json_string(text);
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      result += escaped_control(c);
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result;
}

}  // namespace neuronmm::serve
