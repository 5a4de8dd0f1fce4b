#include "text/jinja/evaluator.h"

#include "text/jinja/iterator.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"

namespace neuronmm::text::jinja {

Evaluator::~Evaluator() {
  for (const FramePtr& frame : macro_frames_) frame->variables.clear();
}

// The innermost expression knows best where the error is, so only the first call adds a position.
Error Evaluator::locate(Error error, const SourcePosition& position) {
  if (!located_)
    error.message =
        fmt::format("{}:{}:{}: {}", name_, position.line, position.column, error.message);
  located_ = true;
  return error;
}

Result<Value> Evaluator::evaluate(const Expression& expression) {
  const Budget::Level level(runtime_.budget);
  Status status = level.check();
  if (status.ok()) status = runtime_.budget.spend(1);
  if (!status.ok()) return locate(status.error(), expression.position);
  Result<Value> value = std::visit([this](const auto& node) { return run(node); }, expression.node);
  if (!value.ok()) return locate(value.error(), expression.position);
  return value;
}

Result<Value> Evaluator::run(const Name& node) {
  const std::optional<Value>& value = frame_->at(node.address);
  return value ? *value : Value::undefined(fmt::format("'{}' is undefined", node.name));
}

Result<Value> Evaluator::run(const Attribute& node) {
  NMM_ASSIGN(const Value object, evaluate(*node.object));
  return get_attribute(runtime_, object, node.name);
}

Result<Value> Evaluator::run(const Item& node) {
  NMM_ASSIGN(const Value object, evaluate(*node.object));
  NMM_ASSIGN(const Value key, evaluate(*node.key));
  return get_item(runtime_, object, key);
}

Result<Value> Evaluator::run(const Slice& node) {
  NMM_ASSIGN(const Value object, evaluate(*node.object));
  Value bounds[3];
  const Expression* const expressions[3] = {node.start.get(), node.stop.get(), node.step.get()};
  for (size_t i = 0; i < 3; ++i) {
    if (expressions[i] == nullptr) continue;
    NMM_ASSIGN(bounds[i], evaluate(*expressions[i]));
  }
  return slice(runtime_, object, &bounds[0], &bounds[1], &bounds[2]);
}

Result<Arguments> Evaluator::arguments_of(const CallArguments& list) {
  Arguments arguments;
  for (const ExpressionPtr& value : list.positional) {
    NMM_ASSIGN(arguments.positional.emplace_back(), evaluate(*value));
  }
  if (list.more_positional != nullptr) {
    NMM_ASSIGN(const Value more, evaluate(*list.more_positional));
    NMM_ASSIGN(const Values values, to_values(runtime_, more));
    arguments.positional.insert(arguments.positional.end(), values.begin(), values.end());
  }
  for (const auto& [name, expression] : list.named) {
    NMM_ASSIGN(Value value, evaluate(*expression));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (list.more_named == nullptr) return arguments;
  NMM_ASSIGN(const Value more, evaluate(*list.more_named));
  if (more.dict() == nullptr)
    return fail("argument after ** must be a mapping, found '{}'", more.type_name());
  // The keys of a dict differ from each other, so they are compared with the names before only.
  const size_t named = arguments.named.size();
  for (const auto& [key, value] : more.dict()->entries) {
    if (key.text() == nullptr) return fail("keywords must be strings, found '{}'", key.type_name());
    NMM_TRY(runtime_.budget.spend(1 + named));
    for (size_t i = 0; i < named; ++i) {
      if (arguments.named[i].first == key.text()->bytes)
        return fail("got multiple values for keyword argument '{}'", key.text()->bytes);
    }
    arguments.named.emplace_back(key.text()->bytes, value);
  }
  return arguments;
}

Result<Value> Evaluator::run(const Call& node) { return call_with(node, {}); }

Result<Value> Evaluator::call_with(const Call& node, Arguments extra) {
  NMM_ASSIGN(const Value function, evaluate(*node.function));
  NMM_ASSIGN(Arguments arguments, arguments_of(node.arguments));
  for (auto& argument : extra.named) arguments.named.push_back(std::move(argument));
  return call(runtime_, function, arguments);
}

Result<Value> Evaluator::run(const Filter& node) {
  NMM_ASSIGN(const Value input, evaluate(*node.input));
  NMM_ASSIGN(const Arguments arguments, arguments_of(node.arguments));
  const FilterFunction filter = find_filter(node.name);
  if (filter == nullptr) return fail("no filter named '{}'", node.name);
  return filter(runtime_, input, arguments);
}

Result<Value> Evaluator::run(const Test& node) {
  NMM_ASSIGN(const Value input, evaluate(*node.input));
  NMM_ASSIGN(const Arguments arguments, arguments_of(node.arguments));
  const TestFunction test = find_test(node.name);
  if (test == nullptr) return fail("no test named '{}'", node.name);
  NMM_ASSIGN(const bool holds, test(runtime_, input, arguments));
  return Value(holds);
}

Result<Value> Evaluator::run(const CapturedOutput&) { return captured_.back(); }

Result<Value> Evaluator::run(const Not& node) {
  NMM_ASSIGN(const Value operand, evaluate(*node.operand));
  return Value(!truth(operand));
}

Result<Value> Evaluator::run(const Sign& node) {
  NMM_ASSIGN(const Value operand, evaluate(*node.operand));
  return with_sign(node.negative, operand);
}

Result<Value> Evaluator::run(const Binary& node) {
  NMM_ASSIGN(const Value left, evaluate(*node.left));
  NMM_ASSIGN(const Value right, evaluate(*node.right));
  return arithmetic(runtime_, node.operation, left, right);
}

Result<Value> Evaluator::run(const Logical& node) {
  NMM_ASSIGN(Value left, evaluate(*node.left));
  if (truth(left) != node.is_and) return left;
  return evaluate(*node.right);
}

Result<Value> Evaluator::run(const Compare& node) {
  NMM_ASSIGN(Value left, evaluate(*node.first));
  for (const auto& [comparison, operand] : node.operands) {
    NMM_ASSIGN(Value right, evaluate(*operand));
    NMM_ASSIGN(const bool holds, compare(runtime_, comparison, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Evaluator::run(const Conditional& node) {
  NMM_ASSIGN(const Value test, evaluate(*node.test));
  if (truth(test)) return evaluate(*node.then);
  if (node.otherwise != nullptr) return evaluate(*node.otherwise);
  return Value::undefined(
      "the inline if-expression evaluated to false and no else section was defined.");
}

Result<Value> Evaluator::run(const Concatenation& node) {
  Values parts;
  for (const ExpressionPtr& expression : node.parts) {
    NMM_ASSIGN(parts.emplace_back(), evaluate(*expression));
  }
  TextWriter writer(runtime_.budget);
  for (const Value& value : parts) write_text(runtime_, value, writer);
  NMM_ASSIGN(TextPtr text, writer.take());
  return Value(std::move(text));
}

Result<Value> Evaluator::run(const ListLiteral& node) {
  Values items;
  for (const ExpressionPtr& expression : node.items) {
    NMM_ASSIGN(items.emplace_back(), evaluate(*expression));
  }
  return make_list(runtime_, std::move(items),
                   node.is_tuple ? List::Kind::kTuple : List::Kind::kList);
}

Result<Value> Evaluator::run(const DictLiteral& node) {
  DictBuilder dict(runtime_);
  for (const auto& [key_expression, value_expression] : node.entries) {
    NMM_ASSIGN(const Value key, evaluate(*key_expression));
    NMM_ASSIGN(Value value, evaluate(*value_expression));
    NMM_TRY(dict.set(key, std::move(value)));
  }
  return dict.take();
}

}  // namespace neuronmm::text::jinja
