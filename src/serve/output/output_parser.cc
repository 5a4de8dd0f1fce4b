#include "serve/output/output_parser.h"

namespace neuronmm::serve {

OutputParser::OutputParser(Thinking thinking, std::unique_ptr<ToolCallParser> tools, bool parallel,
                           const ReasoningTags& tags)
    : reasoning_(thinking, tags), tools_(std::move(tools)), parallel_(parallel) {}

std::vector<OutputDelta> OutputParser::push(std::string_view text) {
  std::string thoughts, content;
  reasoning_.push(text, thoughts, content);
  OutputDeltas deltas;
  deltas.reasoning(thoughts);
  if (tools_ == nullptr)
    deltas.content(content);
  else
    tools_->push(content, deltas);
  return filtered(std::move(deltas));
}

std::vector<OutputDelta> OutputParser::finish() {
  std::string thoughts, content;
  reasoning_.finish(thoughts, content);
  OutputDeltas deltas;
  deltas.reasoning(thoughts);
  if (tools_ == nullptr) {
    deltas.content(content);
  } else {
    tools_->push(content, deltas);
    tools_->finish(deltas);
  }
  return filtered(std::move(deltas));
}

std::vector<OutputDelta> OutputParser::filtered(OutputDeltas deltas) {
  if (parallel_) return deltas.take();
  std::vector<OutputDelta> first;
  for (OutputDelta& delta : deltas.take()) {
    if (delta.kind == OutputDelta::Kind::kCall && delta.call > 0) ended_ = true;
    if (!ended_) first.push_back(std::move(delta));
  }
  return first;
}

}  // namespace neuronmm::serve
