#pragma once
// The text of a chat's answer as thoughts, content and calls of tools.

#include <memory>
#include <string_view>
#include <vector>

#include "serve/protocol/reasoning_splitter.h"
#include "serve/protocol/tool_call_parser.h"

namespace neuronmm::serve {

class OutputParser {
 public:
  // `tools` may be nullptr: nothing is a call. Without `parallel` an answer ends with its first
  // call.
  OutputParser(Thinking thinking, std::unique_ptr<ToolCallParser> tools, bool parallel = true);
  std::vector<OutputDelta> push(std::string_view text);
  std::vector<OutputDelta> finish();
  bool has_calls() const { return tools_ != nullptr && tools_->calls() > 0; }
  // A second call has begun where only one is wanted: it is not told, nor what follows.
  bool ended() const { return ended_; }

 private:
  std::vector<OutputDelta> wanted(OutputDeltas deltas);

  ReasoningSplitter reasoning_;
  std::unique_ptr<ToolCallParser> tools_;
  bool parallel_;
  bool ended_ = false;
};

}  // namespace neuronmm::serve
