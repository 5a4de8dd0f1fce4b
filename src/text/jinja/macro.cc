// Executes macros and the blocks that work like macros: call blocks and generation blocks.

#include <algorithm>

#include "text/jinja/evaluator.h"

namespace neuronmm::text::jinja {
namespace {

class MacroFunction final : public Object {
 public:
  MacroFunction(Evaluator& evaluator, const MacroBody& body, std::string name, FramePtr frame)
      : evaluator_(evaluator), body_(body), name_(std::move(name)), frame_(std::move(frame)) {}
  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  Result<Value> call(Runtime&, const Arguments& arguments) override {
    return evaluator_.run_macro(body_, name_, frame_, arguments);
  }
  Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name) override {
    if (name != "name") return std::optional<Value>();
    NMM_ASSIGN(Value text, make_text(runtime, name_));
    return std::optional(std::move(text));
  }

 private:
  Evaluator& evaluator_;
  const MacroBody& body_;
  std::string name_;
  FramePtr frame_;
};

// Moves the named argument from the list to `value`, if it is there.
void take_named(Arguments& arguments, std::string_view name, std::optional<Value>& value) {
  const Value* found = arguments.find(name);
  if (found == nullptr) return;
  value = *found;
  std::erase_if(arguments.named, [&](const auto& argument) { return argument.first == name; });
}

// Gives the arguments that no parameter took to the macro's special variables. Arguments that still
// remain are an error.
Status bind_remaining(Runtime& runtime, const MacroBody& macro, std::string_view name, Frame& frame,
                      Arguments remaining) {
  if (macro.caller) {
    std::optional<Value>& caller = frame.variables[*macro.caller];
    caller = Value::undefined("No caller defined");
    take_named(remaining, "caller", caller);
  }
  if (macro.kwargs) {
    DictBuilder named(runtime);
    for (auto& [key, value] : remaining.named) {
      NMM_ASSIGN(const Value key_text, make_text(runtime, key));
      NMM_TRY(named.set(key_text, value));
    }
    NMM_ASSIGN(frame.variables[*macro.kwargs], named.take());
  } else if (!remaining.named.empty()) {
    return fail("macro '{}' takes no keyword argument '{}'", name, remaining.named.front().first);
  }
  if (macro.varargs) {
    NMM_ASSIGN(frame.variables[*macro.varargs],
               make_tuple(runtime, std::move(remaining.positional)));
  } else if (!remaining.positional.empty()) {
    return fail("macro '{}' takes not more than {} argument(s)", name, macro.parameters.size());
  }
  return {};
}

}  // namespace

Result<Value> Evaluator::make_macro(const MacroBody& body, std::string name) {
  NMM_TRY(runtime_.budget.allocate(sizeof(MacroFunction)));
  if (!frame_->captured_by_macro) macro_frames_.push_back(frame_);
  frame_->captured_by_macro = true;
  return Value(ObjectPtr(std::make_shared<MacroFunction>(*this, body, std::move(name), frame_)));
}

Result<Value> Evaluator::run_macro(const MacroBody& macro, std::string_view name,
                                   const FramePtr& outer, const Arguments& arguments) {
  const Budget::Level level(runtime_.budget);
  NMM_TRY(level.check());
  NMM_ASSIGN(const FramePtr frame, enter(macro.scope, outer));
  Arguments remaining = arguments;
  const size_t given = std::min(arguments.positional.size(), macro.parameters.size());
  remaining.positional.erase(remaining.positional.begin(),
                             remaining.positional.begin() + static_cast<std::ptrdiff_t>(given));
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    std::optional<Value>& value = frame->at(macro.parameters[i].address);
    if (i < given)
      value = arguments.positional[i];
    else
      take_named(remaining, macro.parameters[i].name, value);
  }
  NMM_TRY(bind_remaining(runtime_, macro, name, *frame, std::move(remaining)));
  const size_t first_default = macro.parameters.size() - macro.defaults.size();
  const FramePtr outside = std::exchange(frame_, frame);
  Status status;
  for (size_t i = given; i < macro.parameters.size() && status.ok(); ++i) {
    std::optional<Value>& value = frame->at(macro.parameters[i].address);
    if (value) continue;
    value =
        Value::undefined(fmt::format("parameter '{}' was not provided", macro.parameters[i].name));
    if (i < first_default) continue;
    auto otherwise = evaluate(*macro.defaults[i - first_default]);
    if (otherwise.ok())
      value = *otherwise;
    else
      status = otherwise.error();
  }
  frame_ = outside;
  NMM_TRY(std::move(status));
  TextPtr text;
  NMM_TRY(capture(macro.body, frame, text));
  return Value(std::move(text));
}

Result<Evaluator::Flow> Evaluator::run(const Macro& node) {
  NMM_ASSIGN(frame_->at(node.name.address), make_macro(node.body, node.name.name));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const CallBlock& node) {
  Arguments extra;
  NMM_ASSIGN(Value caller, make_macro(node.body, "caller"));
  extra.named.emplace_back("caller", std::move(caller));
  const auto value = call_with(std::get<Call>(node.call->node), std::move(extra));
  if (!value.ok()) return locate(value.error(), node.call->position);
  NMM_TRY(write_block(*value));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const Generation& node) {
  NMM_ASSIGN(const Value text, run_macro(node.body, "generation", frame_, {}));
  write_text(runtime_, text, *out_);
  return Flow::kNext;
}

}  // namespace neuronmm::text::jinja
