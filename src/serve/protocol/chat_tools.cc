#include "serve/protocol/chat_tools.h"

#include <algorithm>

namespace neuronmm::serve {
namespace {

constexpr size_t kMostNameBytes = 256, kMostTools = 1024;

bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= kMostNameBytes && std::ranges::all_of(name, fits);
}

std::string read_name(FieldReader& function) {
  std::string name = function.required_string("name");
  if (!is_name(name))
    function.wrong("name", "letters, digits, \"_\", \"-\" and \".\", at most 256 of them");
  return name;
}

Tool read_tool(const Json& value, const std::string& path, RequestProblem& problem) {
  if (!value.is_object()) {
    problem.add(invalid_request(
        path, fmt::format("{}: expected an object with \"type\" and \"function\", found {}", path,
                          describe(value))));
    return {};
  }
  FieldReader reader(value, path + ".", problem);
  if (reader.required_string("type") != "function") reader.wrong("type", "\"function\"");
  const Json* function = reader.object("function");
  if (function == nullptr) {
    reader.wrong("function", "an object with \"name\"");
    return {};
  }
  FieldReader parts(*function, reader.path("function."), problem);
  (void)parts.string("description");
  const Json* parameters = parts.object("parameters");
  return {.name = read_name(parts),
          .parameters = parameters == nullptr ? Json::object() : *parameters,
          .strict = parts.boolean("strict").value_or(false)};
}

std::vector<Tool> read_tools(FieldReader& fields, const Json& list) {
  std::vector<Tool> tools;
  if (list.empty() || list.size() > kMostTools)
    fields.wrong("tools", fmt::format("from one tool to {}, or no such field", kMostTools));
  for (size_t i = 0; i < list.size() && !fields.problem().found(); ++i) {
    Tool tool = read_tool(list[i], fmt::format("tools[{}]", i), fields.problem());
    const auto same = [&](const Tool& other) { return other.name == tool.name; };
    if (std::ranges::any_of(tools, same))
      fields.fail("tools", fmt::format("expected distinct names, found {:?} twice", tool.name));
    tools.push_back(std::move(tool));
  }
  return tools;
}

// {"type": "function", "function": {"name": ...}}
ToolChoice read_named(FieldReader& fields, const Json& value) {
  FieldReader reader(value, "tool_choice.", fields.problem());
  if (reader.required_string("type") != "function") reader.wrong("type", "\"function\"");
  const Json* function = reader.object("function");
  if (function == nullptr) {
    reader.wrong("function", "an object with \"name\"");
    return {};
  }
  FieldReader parts(*function, "tool_choice.function.", fields.problem());
  return {ToolChoice::Kind::kNamed, parts.required_string("name")};
}

ToolChoice read_choice(FieldReader& fields, bool has_tools) {
  using Kind = ToolChoice::Kind;
  const Json* value = fields.find("tool_choice");
  if (value == nullptr) return {has_tools ? Kind::kAuto : Kind::kNone};
  if (value->is_object()) return read_named(fields, *value);
  if (*value == "none") return {Kind::kNone};
  if (*value == "auto") return {Kind::kAuto};
  if (*value == "required") return {Kind::kRequired};
  fields.wrong("tool_choice",
               "\"none\", \"auto\", \"required\" or an object that names a function");
  return {};
}

}  // namespace

ToolFields read_tool_fields(FieldReader& fields) {
  ToolFields read;
  const Json* list = fields.array("tools");
  if (list != nullptr) {
    read.shown = *list;
    read.tools = read_tools(fields, *list);
  }
  read.choice = read_choice(fields, list != nullptr);
  read.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  const auto chosen = [&](const Tool& tool) { return tool.name == read.choice.name; };
  if (read.choice.forced() && list == nullptr)
    fields.fail("tool_choice", "expected \"tools\" to choose from, found nothing");
  else if (read.choice.kind == ToolChoice::Kind::kNamed && std::ranges::none_of(read.tools, chosen))
    fields.fail("tool_choice",
                fmt::format("expected a function of \"tools\", found {:?}", read.choice.name));
  fields.refuse("functions", "expected tools instead");
  fields.refuse("function_call", "expected tool_choice instead");
  return read;
}

}  // namespace neuronmm::serve
