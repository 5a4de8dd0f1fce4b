#include "serve/output/custom_tool_input.h"

#include <algorithm>
#include <utility>

#include "serve/requests/custom_tools.h"

namespace neuronmm::serve {
namespace {

// Returns the input in the JSON of arguments. If the JSON was cut off inside the text, returns the
// text so far. Returns JSON of another form unchanged.
std::string input_of(const std::string& arguments) {
  for (const char* end : {"", "}", "\"}"}) {
    const Json value = Json::parse(arguments + end, nullptr, false);
    if (value.is_object() && value.contains(kCustomInput) && value[kCustomInput].is_string())
      return value[kCustomInput].get<std::string>();
  }
  return arguments;
}

}  // namespace

bool is_custom_tool(const std::vector<Tool>& tools, std::string_view name) {
  const auto tool = std::ranges::find(tools, name, &Tool::name);
  return tool != tools.end() && tool->custom;
}

std::vector<OutputDelta> CustomToolInput::convert(std::vector<OutputDelta> deltas) {
  std::vector<OutputDelta> out;
  for (OutputDelta& delta : deltas) {
    if (in_call_ && delta.kind == OutputDelta::Kind::kArguments) {
      arguments_.text += delta.text;
      continue;
    }
    end_input(out);
    if (delta.kind == OutputDelta::Kind::kCall && is_custom_tool(*tools_, delta.text)) {
      in_call_ = true;
      arguments_ = {OutputDelta::Kind::kArguments, "", delta.call};
    }
    out.push_back(std::move(delta));
  }
  return out;
}

std::vector<OutputDelta> CustomToolInput::finish() {
  std::vector<OutputDelta> out;
  end_input(out);
  return out;
}

void CustomToolInput::end_input(std::vector<OutputDelta>& out) {
  if (!std::exchange(in_call_, false)) return;
  arguments_.text = input_of(arguments_.text);
  if (!arguments_.text.empty()) out.push_back(std::exchange(arguments_, {}));
}

}  // namespace neuronmm::serve
