#include "serve/requests/chat_tools.h"

#include <algorithm>

#include "serve/requests/custom_tools.h"

namespace neuronmm::serve {
namespace {

constexpr size_t kMostNameBytes = 256;  // assumed

bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= kMostNameBytes && std::ranges::all_of(name, fits);
}

bool says_nothing_of_arguments(const Json& schema) {
  constexpr std::string_view kSilent[] = {"type", "title", "description", "$schema"};
  return std::ranges::all_of(schema.items(), [&](const auto& item) {
    return std::ranges::count(kSilent, item.key()) > 0 ||
           (item.key() == "required" && item.value().empty());
  });
}

// Returns the schema of a function's arguments. Arguments are always an object, although a schema
// may not say so or say something else, so that requirement is added.
Json schema_of_arguments(const Json* parameters) {
  if (parameters == nullptr || parameters->empty())
    return {{"type", "object"}, {"properties", Json::object()}};
  Json schema = *parameters;
  if (schema.value("type", Json()) == "object") {
    // A function whose schema says nothing of its arguments has none.
    if (says_nothing_of_arguments(schema)) schema["properties"] = Json::object();
    return schema;
  }
  Json& all = schema["allOf"];
  if (all.is_null()) all = Json::array();
  if (all.is_array())
    all.push_back({{"type", "object"}});  // otherwise the grammar compiler reports the error
  return schema;
}

}  // namespace

std::string read_tool_name(FieldReader& tool) {
  std::string name = tool.required_string("name");
  if (!is_name(name))
    tool.add_mismatch("name", "letters, digits, \"_\", \"-\" and \".\", at most 256 of them");
  return name;
}

Tool read_function(FieldReader& function, const char* schema_key) {
  (void)function.string("description");
  const Json* parameters = function.object(schema_key);
  return {.name = read_tool_name(function),
          .parameters = schema_of_arguments(parameters),
          .strict = function.boolean("strict").value_or(false)};
}

namespace {

Json nested(const Json& tool, const std::string& name) {
  Json function = tool;
  function.erase("type");
  function["name"] = name;
  return {{"type", "function"}, {"function", std::move(function)}};
}

// Returns whether a tool of this type runs on OpenAI's own servers. Such tools are ignored here: a
// model answers without them unless a call is forced.
bool runs_on_openais_servers(std::string_view type) {
  return type.starts_with("web_search") || type.starts_with("computer") || type == "file_search" ||
         type == "code_interpreter" || type == "image_generation" || type == "mcp" ||
         type == "tool_search";
}

class ToolReader {
 public:
  explicit ToolReader(FieldReader& fields) : fields_(fields) {}

  // Calls `read` for every tool of `list`, the field "tools" of `object`.
  template <typename Read>
  void read_all(FieldReader& object, const Json& list, const Read& read) {
    if (list.size() > kMostTools)
      object.add_mismatch("tools", fmt::format("at most {} tools", kMostTools));
    for (size_t i = 0; i < list.size() && !fields_.problem().found(); ++i) {
      const std::string path = fmt::format("{}[{}]", object.path("tools"), i);
      if (!expect_object(list[i], path, "\"type\" and the function", fields_.problem())) return;
      FieldReader reader(list[i], path + ".", fields_.problem());
      read(reader, list[i]);
    }
  }

  // Reads {"type": "function", "function": {"name": ...}}.
  void read_nested(FieldReader& tool, const Json& value) {
    const std::string type = tool.string("type").value_or("function");
    if (type == "custom") return read_nested_custom(tool);
    if (type != "function") tool.add_mismatch("type", "\"function\" or \"custom\"");
    const Json* function = tool.object("function");
    if (function == nullptr) return tool.add_mismatch("function", "an object with \"name\"");
    FieldReader parts(*function, tool.path("function."), fields_.problem());
    add(read_function(parts, "parameters"), value);
  }

  // Reads {"type": "function", "name": ...}, or a namespace with several functions.
  void read_flat(FieldReader& tool, const Json& value) {
    const std::string type = tool.string("type").value_or("function");
    if (runs_on_openais_servers(type)) return read_.ignored.push_back("tools." + type);
    if (type == "namespace") return read_namespace(tool);
    if (type == "custom") return add_custom(tool);
    if (type != "function")
      return tool.add_mismatch(
          "type", "\"function\", \"custom\", \"namespace\" or what OpenAI's servers run");
    Tool function = read_function(tool, "parameters");
    Json shown = nested(value, function.name);
    add(std::move(function), std::move(shown));
  }

  ToolFields take() { return std::move(read_); }

 private:
  void expect_function(FieldReader& tool, const std::string& type) {
    if (type != "function") tool.add_mismatch("type", "\"function\"");
  }

  // Reads {"type": "custom", "custom": {"name": ...}}.
  void read_nested_custom(FieldReader& tool) {
    const Json* custom = tool.object("custom");
    if (custom == nullptr) return tool.add_mismatch("custom", "an object with \"name\"");
    FieldReader parts(*custom, tool.path("custom."), fields_.problem());
    add_custom(parts);
  }

  void add_custom(FieldReader& tool) {
    Tool read = read_custom_tool(tool);
    const Json* description = tool.find("description");
    Json shown = template_function(read, description == nullptr ? Json() : *description);
    add(std::move(read), std::move(shown));
  }

  void read_namespace(FieldReader& tool) {
    const std::string name_space = read_tool_name(tool);
    const Json* list = tool.array("tools");
    if (list == nullptr) return tool.add_mismatch("tools", "an array of functions");
    read_all(tool, *list, [&](FieldReader& inner, const Json& value) {
      expect_function(inner, inner.string("type").value_or("function"));
      Tool function = read_function(inner, "parameters");
      function.name_space = name_space;
      function.name = fmt::format("{}.{}", name_space, function.name);
      Json shown = nested(value, function.name);
      add(std::move(function), std::move(shown));
    });
  }

  void add(Tool tool, Json shown) {
    // The limit counts the functions of all namespaces together.
    if (read_.tools.size() == kMostTools)
      fields_.add_error("tools", fmt::format("expected at most {} functions", kMostTools));
    const auto same = [&](const Tool& other) { return other.name == tool.name; };
    if (std::ranges::any_of(read_.tools, same))
      fields_.add_error("tools",
                        fmt::format("expected distinct names, found {:?} twice", tool.name));
    read_.tools.push_back(std::move(tool));
    read_.template_tools.push_back(std::move(shown));
  }

  FieldReader& fields_;
  ToolFields read_;
};

ToolFields read_tools(FieldReader& fields, ToolSpelling spelling) {
  ToolReader tools(fields);
  const Json* list = fields.array("tools");
  if (list == nullptr) return {};
  tools.read_all(fields, *list, [&](FieldReader& tool, const Json& value) {
    spelling == ToolSpelling::kFlat ? tools.read_flat(tool, value) : tools.read_nested(tool, value);
  });
  return tools.take();
}

// Returns the name of the function that an object refers to. The object's "type" has already been
// read.
std::string read_function_name(FieldReader& reader, ToolSpelling spelling) {
  if (spelling == ToolSpelling::kFlat) {
    const auto name_space = reader.string("namespace");
    const std::string name = reader.required_string("name");
    return name_space ? fmt::format("{}.{}", *name_space, name) : name;
  }
  const char* key = reader.string("type").value_or("function") == "custom" ? "custom" : "function";
  const Json* function = reader.object(key);
  if (function == nullptr) {
    reader.add_mismatch(key, "an object with \"name\"");
    return {};
  }
  FieldReader parts(*function, reader.path(fmt::format("{}.", key)), reader.problem());
  return parts.required_string("name");
}

ToolChoice choice_of_word(FieldReader& fields, const std::string& key, const Json& word) {
  using Kind = ToolChoice::Kind;
  if (word == "none") return {Kind::kNone};
  if (word == "auto") return {Kind::kAuto};
  if (word == "required") return {Kind::kRequired};
  fields.add_mismatch(key, "\"none\", \"auto\", \"required\" or an object that names a function");
  return {};
}

// Removes all tools that are not in `names`.
void keep_tools(const std::vector<std::string>& names, ToolFields& tools) {
  Json shown = Json::array();
  std::vector<Tool> kept;
  for (size_t i = 0; i < tools.tools.size(); ++i) {
    if (std::ranges::count(names, tools.tools[i].name) == 0) continue;
    shown.push_back(tools.template_tools[i]);
    kept.push_back(std::move(tools.tools[i]));
  }
  tools.template_tools = std::move(shown);
  tools.tools = std::move(kept);
}

bool has_tool(const ToolFields& tools, const std::string& name) {
  return std::ranges::count(tools.tools, name, &Tool::name) > 0;
}

void expect_tool(FieldReader& fields, const std::string& name, const ToolFields& tools) {
  if (!has_tool(tools, name))
    fields.add_error("tool_choice",
                     fmt::format("expected a function of \"tools\", found {:?}", name));
}

// Reads {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function",
// ...}]}}. The Responses API has "mode" and "tools" in the outer object.
void read_allowed(FieldReader& fields, FieldReader& allowed, ToolSpelling spelling,
                  ToolFields& tools) {
  const Json* mode = allowed.find("mode");
  tools.choice = choice_of_word(allowed, "mode", mode == nullptr ? Json("auto") : *mode);
  const Json* list = allowed.array("tools");
  if (list == nullptr || list->empty())
    return allowed.add_mismatch("tools", "an array of at least one function");
  std::vector<std::string> names;
  for (size_t i = 0; i < list->size() && !fields.problem().found(); ++i) {
    FieldReader entry((*list)[i], fmt::format("{}[{}].", allowed.path("tools"), i),
                      fields.problem());
    names.push_back(read_function_name(entry, spelling));
    expect_tool(fields, names.back(), tools);
  }
  keep_tools(names, tools);
}

void read_chosen(FieldReader& fields, const Json& value, ToolSpelling spelling, ToolFields& tools) {
  FieldReader choice(value, "tool_choice.", fields.problem());
  const std::string type = choice.string("type").value_or("function");
  if (type == "allowed_tools") {
    if (spelling == ToolSpelling::kFlat) return read_allowed(fields, choice, spelling, tools);
    const Json* object = choice.object("allowed_tools");
    if (object == nullptr)
      return choice.add_mismatch("allowed_tools", "an object with \"mode\" and \"tools\"");
    FieldReader allowed(*object, choice.path("allowed_tools."), choice.problem());
    return read_allowed(fields, allowed, spelling, tools);
  }
  if (type != "function" && type != "custom")
    choice.add_mismatch("type", "\"function\", \"custom\" or \"allowed_tools\"");
  tools.choice = {ToolChoice::Kind::kNamed, read_function_name(choice, spelling)};
  if (!tools.tools.empty()) expect_tool(fields, tools.choice.name, tools);
}

void read_choice(FieldReader& fields, ToolSpelling spelling, ToolFields& tools) {
  using Kind = ToolChoice::Kind;
  const Json* value = fields.find("tool_choice");
  if (value == nullptr) {
    tools.choice = {tools.tools.empty() ? Kind::kNone : Kind::kAuto};
  } else if (!value->is_object()) {
    tools.choice = choice_of_word(fields, "tool_choice", *value);
  } else {
    read_chosen(fields, *value, spelling, tools);
    if (fields.problem().found()) return;
  }
  if (tools.choice.forced() && tools.tools.empty())
    fields.add_error("tool_choice", "expected \"tools\" to choose from, found nothing");
}

}  // namespace

std::vector<RequestField> tool_fields(ToolSpelling spelling) {
  using Field = RequestField;
  const bool flat = spelling == ToolSpelling::kFlat;
  const Json tool = component_schema(flat ? "ResponseTool" : "Tool");
  return {
      Field::other("tools", nullable_schema(array_schema(tool, {}, kMostTools)),
                   "Functions that the model may call. By default there are none"),
      Field::other("tool_choice", component_schema(flat ? "ResponseToolChoice" : "ToolChoice"),
                   "Whether the model may, must or must not call a tool, or the tool that it must "
                   "call. By default auto if there are tools, else none"),
      Field::boolean("parallel_tool_calls", "Whether an answer may have several calls")
          .by_default(true),
      Field::not_supported("functions", "expected tools instead"),
      Field::not_supported("function_call", "expected tool_choice instead"),
  };
}

ToolFields read_tool_fields(FieldReader& fields, ToolSpelling spelling) {
  ToolFields read = read_tools(fields, spelling);
  read_choice(fields, spelling, read);
  read.parallel = fields.boolean_or_default("parallel_tool_calls");
  return read;
}

}  // namespace neuronmm::serve
