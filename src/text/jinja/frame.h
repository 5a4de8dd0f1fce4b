#pragma once
// The variables of a scope while it runs.

#include <memory>
#include <optional>
#include <vector>

#include "text/jinja/ast.h"

namespace neuronmm::text::jinja {

struct Frame {
  std::shared_ptr<Frame> outer;
  std::vector<std::optional<Value>> variables;  // by slot; nothing: not set
  bool kept = false;                            // a macro that was made in it holds it

  std::optional<Value>& at(const VariablePlace& place) {
    Frame* frame = this;
    for (int i = 0; i < place.scopes_out; ++i) frame = frame->outer.get();
    return frame->variables[place.slot];
  }
};
using FramePtr = std::shared_ptr<Frame>;

}  // namespace neuronmm::text::jinja
