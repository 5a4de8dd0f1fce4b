#pragma once
// Turns the arguments of custom tools into the text that they stand for (requests/custom_tools.h).
// ChatOutput uses it.

#include <string>
#include <string_view>
#include <vector>

#include "serve/output/output_delta.h"
#include "serve/requests/chat_tools.h"

namespace neuronmm::serve {

// Returns whether the function with this name is a custom tool.
bool is_custom_tool(const std::vector<Tool>& tools, std::string_view name);

// The state of one answer.
class CustomToolInput {
 public:
  explicit CustomToolInput(ToolList tools) : tools_(std::move(tools)) {}
  // Returns the deltas with the arguments of custom tools replaced by their inputs. An input is
  // complete when another delta follows it.
  std::vector<OutputDelta> convert(std::vector<OutputDelta> deltas);
  // Returns the rest, after the last delta.
  std::vector<OutputDelta> finish();

 private:
  void end_input(std::vector<OutputDelta>& out);

  ToolList tools_;
  bool in_call_ = false;   // in a call of a custom tool
  OutputDelta arguments_;  // of that call
};

}  // namespace neuronmm::serve
