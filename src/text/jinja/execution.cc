// Executes the statements of a template.

#include "text/jinja/evaluator.h"
#include "text/jinja/iterator.h"
#include "text/jinja/loop.h"
#include "text/jinja/objects.h"

namespace neuronmm::text::jinja {

Result<TextPtr> Evaluator::render(const Statements& statements, const Scope& scope) {
  TextWriter writer(runtime_.budget, std::min(runtime_.budget.limits().output_bytes,
                                              runtime_.budget.remaining_bytes()));
  out_ = &writer;
  NMM_ASSIGN(frame_, enter(scope, nullptr));
  NMM_TRY(execute(statements));
  auto text = writer.take();
  if (!text.ok()) return fail("{}: {}", name_, text.error().message);
  return text;
}

Result<Evaluator::Flow> Evaluator::execute(const Statements& statements) {
  for (const auto& statement : statements) {
    NMM_ASSIGN(const Flow flow, execute(*statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::execute(const Statement& statement) {
  const Budget::Level level(runtime_.budget);
  Status status = level.check();
  if (status.ok()) status = runtime_.budget.spend(1);
  if (!status.ok()) return locate(status.error(), statement.position);
  Result<Flow> flow = std::visit([this](const auto& node) { return run(node); }, statement.node);
  if (!flow.ok()) return locate(flow.error(), statement.position);
  return flow;
}

Result<FramePtr> Evaluator::enter(const Scope& scope, const FramePtr& outer) {
  NMM_TRY(runtime_.budget.allocate(sizeof(Frame) +
                                   scope.variables.size() * sizeof(std::optional<Value>)));
  auto frame = std::make_shared<Frame>();
  frame->outer = outer;
  for (const Scope::Variable& variable : scope.variables) {
    std::optional<Value>& value = frame->variables.emplace_back();
    if (variable.start == Scope::Variable::Start::kOuter) {
      VariableAddress address = variable.outer;
      value = outer->at(address);
    } else if (variable.start == Scope::Variable::Start::kContext) {
      const auto given = variables_.find(variable.name);
      if (given != variables_.end())
        value = given->second;
      else if (const Function function = find_global(variable.name))
        value = Value(ObjectPtr(std::make_shared<GlobalFunction>(function)));
    }
  }
  return frame;
}

Result<Evaluator::Flow> Evaluator::capture(const Statements& body, const FramePtr& frame,
                                           TextPtr& text) {
  TextWriter writer(runtime_.budget);
  TextWriter* const out = std::exchange(out_, &writer);
  const FramePtr outside = std::exchange(frame_, frame);
  const Result<Flow> flow = execute(body);
  out_ = out;
  frame_ = outside;
  if (!flow.ok()) return flow;
  NMM_ASSIGN(text, writer.take());
  return flow;
}

Status Evaluator::assign(const Target& target, const Value& value, Frame& frame) {
  if (const auto* name = std::get_if<Name>(&target.to)) {
    frame.at(name->address) = value;
    return {};
  }
  if (const auto* attribute = std::get_if<Target::Attribute>(&target.to)) {
    const std::optional<Value>& object = frame.at(attribute->object.address);
    auto* space = object ? object->object_as<Namespace>() : nullptr;
    if (space == nullptr)
      return fail("cannot assign the attribute '{}' of '{}', which is no namespace",
                  attribute->attribute, attribute->object.name);
    return space->set(attribute->attribute, value);
  }
  const auto& parts = std::get<std::vector<Target>>(target.to);
  NMM_ASSIGN(const Values values, to_values(runtime_, value));
  if (values.size() != parts.size())
    return fail("expected {} values to unpack, found {}", parts.size(), values.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    NMM_TRY(assign(parts[i], values[i], frame));
  }
  return {};
}

Result<Evaluator::Flow> Evaluator::run(const Data& node) {
  out_->append(*node.text);
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const Output& node) {
  for (const ExpressionPtr& expression : node.values) {
    NMM_ASSIGN(const Value value, evaluate(*expression));
    write_text(runtime_, value, *out_);
    if (out_->full()) return fail("the text that the template makes is too long");
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const Assign& node) {
  NMM_ASSIGN(const Value value, evaluate(*node.value));
  NMM_TRY(assign(node.target, value, *frame_));
  return Flow::kNext;
}

template <typename Block>
Result<Evaluator::Flow> Evaluator::filter_block(const Block& node, Value& result) {
  NMM_ASSIGN(const FramePtr frame, enter(node.scope, frame_));
  TextPtr text;
  NMM_ASSIGN(const Flow flow, capture(node.body, frame, text));
  if (flow != Flow::kNext) return flow;
  captured_.emplace_back(text);
  const FramePtr outside = std::exchange(frame_, frame);
  const auto value = evaluate(*node.filter);
  frame_ = outside;
  captured_.pop_back();
  if (!value.ok()) return value.error();
  result = *value;
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const AssignBlock& node) {
  Value value;
  NMM_ASSIGN(const Flow flow, filter_block(node, value));
  if (flow == Flow::kNext) NMM_TRY(assign(node.target, value, *frame_));
  return flow;
}

Result<Evaluator::Flow> Evaluator::run(const FilterBlock& node) {
  Value value;
  NMM_ASSIGN(const Flow flow, filter_block(node, value));
  if (flow == Flow::kNext) NMM_TRY(write_block(value));
  return flow;
}

// A block has to make a text, unlike {{ }}, which shows any value.
Status Evaluator::write_block(const Value& value) {
  if (value.text() == nullptr)
    return fail("expected a block to make a text, found '{}'", value.type_name());
  out_->append(*value.text());
  return {};
}

// Returns the items that pass the loop's `if`, which is evaluated one item at a time.
Result<Value> Evaluator::filtered_items(const For& node, const Value& items) {
  if (node.test == nullptr) return items;
  NMM_ASSIGN(const IteratorPtr source, iterate(runtime_, items));
  const FramePtr outer = frame_;
  auto passes = [this, &node, outer](Runtime&, const Value& item) -> Result<std::optional<Value>> {
    NMM_ASSIGN(const FramePtr frame, enter(node.test_scope, outer));
    NMM_TRY(assign(node.test_target, item, *frame));
    const FramePtr outside = std::exchange(frame_, frame);
    const auto value = evaluate(*node.test);
    frame_ = outside;
    if (!value.ok()) return value.error();
    return truth(*value) ? std::optional(item) : std::nullopt;
  };
  return make_iterator(std::make_shared<TransformIterator>(Value(ObjectPtr(source)),
                                                           std::move(passes), items.nesting()));
}

Result<Evaluator::Flow> Evaluator::run(const For& node) {
  NMM_ASSIGN(const Value items, evaluate(*node.items));
  return loop_over(node, items, 0);
}

// Ends a loop on every path out of its body. Without this, the values that loop.changed(loop) keeps
// would never be freed after an error, because they refer to the loop that holds them.
class LoopEnd {
 public:
  explicit LoopEnd(Loop& loop) : loop_(loop) {}
  ~LoopEnd() { loop_.finish(); }
  LoopEnd(const LoopEnd&) = delete;
  LoopEnd& operator=(const LoopEnd&) = delete;

 private:
  Loop& loop_;
};

Result<bool> Evaluator::run_body(const For& node, const std::shared_ptr<Loop>& loop) {
  const LoopEnd end(*loop);
  const FramePtr outside = frame_;
  bool completed = false;
  while (true) {
    NMM_ASSIGN(const auto item, loop->next(runtime_));
    if (!item) return completed;
    NMM_ASSIGN(const FramePtr frame, enter(node.scope, outside));
    if (node.loop) frame->at(*node.loop) = Value(ObjectPtr(loop));
    NMM_TRY(assign(node.target, *item, *frame));
    frame_ = frame;
    const Result<Flow> flow = execute(node.body);
    frame_ = outside;
    if (!flow.ok()) return flow.error();
    completed = completed || *flow == Flow::kNext;
    if (*flow == Flow::kBreak) return completed;
  }
}

// Jinja runs the `else` unless the body ran to its end at least once. A body that `continue` ends
// does not count.
Result<Evaluator::Flow> Evaluator::loop_over(const For& node, const Value& all, int depth) {
  NMM_ASSIGN(const Value filtered, filtered_items(node, all));
  NMM_ASSIGN(const IteratorPtr items, iterate(runtime_, filtered));
  const FramePtr outside = frame_;
  Loop::Recurse recurse;
  if (node.recursive)
    recurse = [this, &node, outside](const Value& inner, int inner_depth) {
      return run_loop(node, outside, inner, inner_depth);
    };
  const auto loop = std::make_shared<Loop>(items, length_of(filtered), depth, std::move(recurse));
  NMM_TRY(check_nesting(loop->nesting()));
  NMM_ASSIGN(const bool completed, run_body(node, loop));
  if (completed || node.otherwise.empty()) return Flow::kNext;
  NMM_ASSIGN(frame_, enter(node.otherwise_scope, outside));
  auto flow = execute(node.otherwise);
  frame_ = outside;
  return flow;
}

Result<Value> Evaluator::run_loop(const For& loop, const FramePtr& outer, const Value& items,
                                  int depth) {
  const Budget::Level level(runtime_.budget);
  NMM_TRY(level.check());
  TextWriter writer(runtime_.budget);
  TextWriter* const out = std::exchange(out_, &writer);
  const FramePtr outside = std::exchange(frame_, outer);
  const auto flow = loop_over(loop, items, depth);
  out_ = out;
  frame_ = outside;
  if (!flow.ok()) return flow.error();
  NMM_ASSIGN(TextPtr text, writer.take());
  return Value(std::move(text));
}

Result<Evaluator::Flow> Evaluator::run(const If& node) {
  for (const auto& [test, body] : node.branches) {
    NMM_ASSIGN(const Value value, evaluate(*test));
    if (truth(value)) return execute(body);
  }
  return execute(node.otherwise);
}

Result<Evaluator::Flow> Evaluator::run(const With& node) {
  NMM_ASSIGN(const FramePtr frame, enter(node.scope, frame_));
  for (const auto& [target, expression] : node.variables) {
    NMM_ASSIGN(const Value value, evaluate(*expression));
    NMM_TRY(assign(target, value, *frame));
  }
  const FramePtr outside = std::exchange(frame_, frame);
  auto flow = execute(node.body);
  frame_ = outside;
  return flow;
}

}  // namespace neuronmm::text::jinja
