#pragma once
// Splits the text of a chat's answer into thoughts, content and tool calls. ChatOutput uses it.

#include <memory>
#include <string_view>
#include <vector>

#include "serve/output/reasoning_splitter.h"
#include "serve/output/tool_call_parser.h"

namespace neuronmm::serve {

// The state of one answer.
class OutputParser {
 public:
  // If `tools` is nullptr, the answer has no calls. Without `parallel`, the answer ends after its
  // first call.
  OutputParser(Thinking thinking, std::unique_ptr<ToolCallParser> tools, bool parallel = true,
               const ReasoningTags& tags = {});
  // Adds text and returns the deltas that are certain.
  std::vector<OutputDelta> push(std::string_view text);
  // Returns the rest, after the last text.
  std::vector<OutputDelta> finish();
  bool has_calls() const { return tools_ != nullptr && tools_->calls() > 0; }
  // Returns whether a second call has begun although only one is allowed. The second call and
  // everything after it are dropped.
  bool ended() const { return ended_; }

 private:
  std::vector<OutputDelta> filtered(OutputDeltas deltas);

  ReasoningSplitter reasoning_;
  std::unique_ptr<ToolCallParser> tools_;
  bool parallel_;
  bool ended_ = false;
};

}  // namespace neuronmm::serve
