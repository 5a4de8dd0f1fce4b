#include "serve/output/python_call.h"

#include <algorithm>
#include <utility>

#include "serve/output/call_bytes.h"
#include "serve/output/tool_parameter.h"

namespace neuronmm::serve {
namespace {

constexpr size_t kMostNameBytes = 256;  // limit for names of functions and arguments. Assumed
constexpr std::string_view kPrint = "print";

bool is_key_byte(char c) {
  return is_call_letter(c) || is_call_digit(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

bool is_tool(const std::vector<Tool>& tools, std::string_view name) {
  return std::ranges::find(tools, name, &Tool::name) != tools.end();
}

}  // namespace

bool PythonCall::may_begin(char c) { return is_key_byte(c) && !is_call_digit(c); }

PythonCall::Step PythonCall::push(char c, OutputDeltas& out) {
  switch (state_) {
    case State::kName:
      return in_name(c);
    case State::kArgument:
      return in_argument(c, out);
    case State::kKey:
      return in_key(c, out);
    case State::kValue:
      return in_value(c, out);
    case State::kAfter:
      return after_argument(c, out);
    case State::kWrapped:
      if (is_call_space(c)) return Step::kMore;
      return c == ')' ? Step::kEnd : Step::kInvalid;
  }
  return Step::kInvalid;
}

PythonCall::Step PythonCall::in_name(char c) {
  if (c == '(') return end_name();
  const bool is_name = is_key_byte(c) || c == '.' || c == '-' || (is_call_space(c) && wrapped_);
  if (!is_name || name_.size() >= kMostNameBytes) return Step::kInvalid;
  if (!is_call_space(c)) name_ += c;
  return rules_.known_name && !may_be_known() ? Step::kInvalid : Step::kMore;
}

bool PythonCall::may_be_known() const {
  return kPrint.starts_with(name_) || std::ranges::any_of(*tools_, [&](const Tool& tool) {
           return tool.name.starts_with(name_);
         });
}

PythonCall::Step PythonCall::end_name() {
  if (name_ == kPrint && !wrapped_ && !is_tool(*tools_, name_)) {
    wrapped_ = true;
    name_.clear();
    return Step::kMore;
  }
  if (!is_tool(*tools_, name_)) {
    const std::string last = name_.substr(name_.rfind('.') + 1);
    if (is_tool(*tools_, last))
      name_ = last;
    else if (rules_.known_name || name_.empty())
      return Step::kInvalid;
  }
  state_ = State::kArgument;
  return Step::kMore;
}

PythonCall::Step PythonCall::in_argument(char c, OutputDeltas& out) {
  if (is_call_space(c)) return Step::kMore;
  if (c == ')') return arguments_ == 0 && rules_.named_arguments ? Step::kInvalid : close(out);
  if (!may_begin(c)) return begin_unnamed(std::string_view(&c, 1), out);
  key_ = c;
  state_ = State::kKey;
  return Step::kMore;
}

PythonCall::Step PythonCall::in_key(char c, OutputDeltas& out) {
  if (c == '=') {
    key_.resize(key_.find_last_not_of(" \n\t\r") + 1);
    begin_value(key_, out);
    return Step::kMore;
  }
  const bool ended = is_call_space(key_.back());
  const bool is_key = is_call_space(c) || (is_key_byte(c) && !ended);
  if (is_key && key_.size() < kMostNameBytes) {
    key_ += c;
    return Step::kMore;
  }
  return begin_unnamed(key_ + c, out);
}

// Begins a value without a name, of which these bytes were read.
PythonCall::Step PythonCall::begin_unnamed(std::string_view bytes, OutputDeltas& out) {
  const auto tool = std::ranges::find(*tools_, name_, &Tool::name);
  if (tool == tools_->end() || rules_.named_arguments) return Step::kInvalid;
  const Json& schema = tool->parameters;
  const auto properties = schema.is_object() ? schema.find("properties") : schema.end();
  if (properties == schema.end() || !properties->is_object() || arguments_ >= properties->size())
    return Step::kInvalid;
  begin_value(std::next(properties->begin(), arguments_).key(), out);
  for (const char c : bytes) {
    const Step step = push(c, out);
    if (step != Step::kMore) return step;
  }
  return Step::kMore;
}

void PythonCall::begin_value(const std::string& key, OutputDeltas& out) {
  send((arguments_++ == 0 ? "{\"" : ", \"") + escaped(key) + "\": ", out);
  literal_ = PythonLiteral();
  state_ = State::kValue;
}

PythonCall::Step PythonCall::in_value(char c, OutputDeltas& out) {
  std::string json;
  const PythonLiteral::Step step = literal_.push(c, json);
  out.arguments(json, call_);
  if (step == PythonLiteral::Step::kInvalid) return Step::kInvalid;
  if (step == PythonLiteral::Step::kMore) return Step::kMore;
  state_ = State::kAfter;
  return step == PythonLiteral::Step::kEnd ? Step::kMore : after_argument(c, out);
}

PythonCall::Step PythonCall::after_argument(char c, OutputDeltas& out) {
  if (is_call_space(c)) return Step::kMore;
  if (c == ')') return close(out);
  state_ = State::kArgument;
  return c == ',' ? Step::kMore : Step::kInvalid;
}

PythonCall::Step PythonCall::close(OutputDeltas& out) {
  send(arguments_ == 0 ? "{}" : "}", out);
  state_ = State::kWrapped;
  return wrapped_ ? Step::kMore : Step::kEnd;
}

void PythonCall::send(std::string_view arguments, OutputDeltas& out) {
  if (!std::exchange(sent_, true)) out.call(name_, call_);
  out.arguments(arguments, call_);
}

}  // namespace neuronmm::serve
