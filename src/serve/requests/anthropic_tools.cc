#include "serve/requests/anthropic_tools.h"

#include <algorithm>

namespace neuronmm::serve {
namespace {

// Returns the tool in the format of chat completions.
Json template_tool(const Json& tool) {
  Json function = {{"name", tool["name"]}};
  if (const Json description = tool.value("description", Json()); !description.is_null())
    function["description"] = description;
  function["parameters"] = tool.value("input_schema", Json());
  if (function["parameters"].is_null())
    function["parameters"] = {{"type", "object"}, {"properties", Json::object()}};
  return {{"type", "function"}, {"function", std::move(function)}};
}

bool is_offered(const Tool& tool, bool deferred, const AnthropicConversation& conversation) {
  return !conversation.removed_tools.contains(tool.name) &&
         (!deferred || conversation.added_tools.contains(tool.name));
}

void read_tool(FieldReader& fields, const Json& value, const std::string& path,
               const AnthropicConversation& conversation, ToolFields& read) {
  if (!expect_object(value, path, "\"name\"", fields.problem())) return;
  FieldReader reader(value, path + ".", fields.problem());
  if (reader.string("type").value_or("custom") != "custom")
    reader.add_mismatch(
        "type",
        "\"custom\" or nothing: this server runs no tools, and its models know none by a "
        "type");
  Tool tool = read_function(reader, "input_schema");
  const bool deferred = reader.boolean("defer_loading").value_or(false);
  if (fields.problem().found() || !is_offered(tool, deferred, conversation)) return;
  read.template_tools.push_back(template_tool(value));
  read.tools.push_back(std::move(tool));
}

void read_tools(FieldReader& fields, const AnthropicConversation& conversation, ToolFields& read) {
  const Json* list = fields.array("tools");
  if (list == nullptr) return;
  if (list->size() > kMostTools)
    fields.add_mismatch("tools", fmt::format("at most {} tools", kMostTools));
  for (size_t i = 0; i < list->size() && !fields.problem().found(); ++i) {
    const auto same = [&](const Json& other) { return other["name"] == (*list)[i]["name"]; };
    read_tool(fields, (*list)[i], fmt::format("tools[{}]", i), conversation, read);
    if (!fields.problem().found() && std::any_of(list->begin(), list->begin() + i, same))
      fields.add_error("tools", fmt::format("expected distinct names, found {} twice",
                                            describe((*list)[i]["name"])));
  }
}

ToolChoice read_chosen(FieldReader& choice) {
  using Kind = ToolChoice::Kind;
  const std::string type = choice.required_string("type");
  if (type == "auto") return {Kind::kAuto};
  if (type == "any") return {Kind::kRequired};
  if (type == "none") return {Kind::kNone};
  if (type == "tool") return {Kind::kNamed, choice.required_string("name")};
  choice.add_mismatch("type", "\"auto\", \"any\", \"tool\" or \"none\"");
  return {};
}

void read_choice(FieldReader& fields, ToolFields& read) {
  using Kind = ToolChoice::Kind;
  read.choice = {read.tools.empty() ? Kind::kNone : Kind::kAuto};
  const Json* object = fields.object("tool_choice");
  if (object == nullptr) return;
  FieldReader choice(*object, "tool_choice.", fields.problem());
  read.choice = read_chosen(choice);
  read.parallel = !choice.boolean("disable_parallel_tool_use").value_or(false);
  if (fields.problem().found()) return;
  if (read.choice.forced() && read.tools.empty())
    fields.add_error("tool_choice", "expected \"tools\" to choose from, found nothing");
  if (read.choice.kind == Kind::kNamed &&
      std::ranges::count(read.tools, read.choice.name, &Tool::name) == 0)
    fields.add_error("tool_choice",
                     fmt::format("expected a function of \"tools\", found {:?}", read.choice.name));
}

}  // namespace

ToolFields read_anthropic_tools(FieldReader& fields, const AnthropicConversation& conversation) {
  ToolFields read;
  read_tools(fields, conversation, read);
  read_choice(fields, read);
  return read;
}

}  // namespace neuronmm::serve
