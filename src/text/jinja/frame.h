#pragma once
// The variables of a scope while the scope runs. The Evaluator makes a frame whenever it enters a
// scope (ast.h): the template, a loop's body, a macro or a block.

#include <memory>
#include <optional>
#include <vector>

#include "text/jinja/ast.h"

namespace neuronmm::text::jinja {

// A frame inside its `outer` frame.
struct Frame {
  std::shared_ptr<Frame> outer;
  // The variables by slot; without a value where a variable is not set.
  std::vector<std::optional<Value>> variables;
  // True if a macro that was made in this frame refers to it.
  bool captured_by_macro = false;

  // Returns a variable. The address must come from the analysis of the scope that runs in this
  // frame.
  std::optional<Value>& at(const VariableAddress& address) {
    Frame* frame = this;
    for (int i = 0; i < address.scopes_out; ++i) frame = frame->outer.get();
    return frame->variables[address.slot];
  }
};
using FramePtr = std::shared_ptr<Frame>;

}  // namespace neuronmm::text::jinja
