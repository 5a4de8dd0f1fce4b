#pragma once
// Runs the syntax tree of a template. Template::render makes one Evaluator per rendering.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

class Loop;

// The variables that the caller of a template gives it.
using Variables = std::map<std::string, Value, std::less<>>;

// The variables of a scope while the scope runs. The Evaluator makes a frame, inside its `outer`
// frame, whenever it enters a scope (ast.h): the template, a loop's body, a macro or a block.
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

// Evaluates expressions and executes statements. An error stops the rendering.
class Evaluator {
 public:
  // `name` is what errors call the template. All references must outlive the Evaluator. The
  // Evaluator must outlive the values that it made, because macros run in it.
  Evaluator(Runtime& runtime, const Variables& variables, const std::string& name)
      : runtime_(runtime), variables_(variables), name_(name) {}
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // Returns the text of the template. Errors begin with "NAME:LINE:COLUMN: ".
  Result<TextPtr> render(const Statements& statements, const Scope& scope);

  // Returns the text that a macro makes of these arguments, in a frame inside `outer`.
  Result<Value> run_macro(const MacroBody& macro, std::string_view name, const FramePtr& outer,
                          const Arguments& arguments);
  // Returns the text of a recursive loop over these items.
  Result<Value> run_loop(const For& loop, const FramePtr& outer, const Value& items, int depth);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  Error locate(Error error, const SourcePosition& position);

  // Expressions, in evaluator.cc.
  Result<Value> evaluate(const Expression& expression);
  Result<Value> run(const Constant& node) { return node.value; }
  Result<Value> run(const Name& node);
  Result<Value> run(const Attribute& node);
  Result<Value> run(const Item& node);
  Result<Value> run(const Slice& node);
  Result<Value> run(const Call& node);
  Result<Value> run(const Filter& node);
  Result<Value> run(const Test& node);
  Result<Value> run(const CapturedOutput& node);
  Result<Value> run(const Not& node);
  Result<Value> run(const Sign& node);
  Result<Value> run(const Binary& node);
  Result<Value> run(const Logical& node);
  Result<Value> run(const Compare& node);
  Result<Value> run(const Conditional& node);
  Result<Value> run(const Concatenation& node);
  Result<Value> run(const ListLiteral& node);
  Result<Value> run(const DictLiteral& node);
  Result<Value> call_with(const Call& node, Arguments extra);
  Result<Arguments> arguments_of(const CallArguments& list);

  // Statements, in execution.cc.
  Result<Flow> execute(const Statements& statements);
  Result<Flow> execute(const Statement& statement);
  Result<Flow> run(const Data& node);
  Result<Flow> run(const Output& node);
  Result<Flow> run(const Assign& node);
  Result<Flow> run(const AssignBlock& node);
  Result<Flow> run(const For& node);
  Result<Flow> run(const If& node);
  Result<Flow> run(const Macro& node);
  Result<Flow> run(const CallBlock& node);
  Result<Flow> run(const Generation& node);
  Result<Flow> run(const FilterBlock& node);
  Result<Flow> run(const With& node);
  Result<Flow> run(const Break&) { return Flow::kBreak; }
  Result<Flow> run(const Continue&) { return Flow::kContinue; }
  Result<Flow> loop_over(const For& node, const Value& items, int depth);
  // Executes the body for each item and ends the loop. Returns whether the body ran to its end at
  // least once.
  Result<bool> run_body(const For& node, const std::shared_ptr<Loop>& loop);
  Result<Value> filtered_items(const For& node, const Value& items);
  Status assign(const Target& target, const Value& value, Frame& frame);
  Result<FramePtr> enter(const Scope& scope, const FramePtr& outer);
  // Executes the body in `frame` and returns its output in `text`.
  Result<Flow> capture(const Statements& body, const FramePtr& frame, TextPtr& text);
  // Applies the filter of a block to the text of its body. `result` is set only if the flow is
  // kNext.
  template <typename Block>
  Result<Flow> filter_block(const Block& node, Value& result);

  Status write_block(const Value& value);

  // Macros, in macro.cc.
  Result<Value> make_macro(const MacroBody& body, std::string name);

  Runtime& runtime_;
  const Variables& variables_;
  const std::string& name_;
  FramePtr frame_;
  TextWriter* out_ = nullptr;
  // The texts for the filters of the blocks that are ending, innermost last.
  std::vector<Value> captured_;
  // Frames that hold macros. A macro and its frame refer to each other, so the destructor empties
  // them.
  std::vector<FramePtr> macro_frames_;
  bool located_ = false;
};

}  // namespace neuronmm::text::jinja
