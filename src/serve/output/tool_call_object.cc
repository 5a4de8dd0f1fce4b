#include "serve/output/tool_call_object.h"

#include <algorithm>
#include <utility>

#include "serve/output/call_bytes.h"
#include "serve/requests/json_body.h"

namespace neuronmm::serve {
namespace {

// Returns the content of a JSON string; empty if the literal is not a string.
std::string unquoted(const std::string& literal) {
  const Json value = Json::parse(literal, nullptr, false);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// Returns whether JSON describes the arguments of a function.
bool is_schema(const std::string& arguments) {
  const Json value = Json::parse(arguments, nullptr, false);
  return value.is_object() && value.value("type", Json()) == "object" &&
         value.contains("properties");
}

}  // namespace

ToolCallObject::Step ToolCallObject::push(char c, OutputDeltas& out) {
  if (state_ == State::kInKey) {
    text_ += c;
    const JsonScanner::Step step = scanner_.push(c);
    if (step == JsonScanner::Step::kEnd) return end_key();
    return step == JsonScanner::Step::kMore ? Step::kMore : Step::kInvalid;
  }
  if (state_ == State::kInValue) return in_value(c, out);
  if (is_call_space(c)) return Step::kMore;
  switch (state_) {
    case State::kOpen:
      state_ = State::kFirstKey;
      return c == '{' ? Step::kMore : Step::kInvalid;
    case State::kFirstKey:
    case State::kKey:
      return begin_key(c, out);
    case State::kColon:
      state_ = State::kValue;
      return c == ':' ? Step::kMore : Step::kInvalid;
    case State::kValue:
      return begin_value(c, out);
    default:
      return after_value(c, out);
  }
}

ToolCallObject::Step ToolCallObject::begin_value(char c, OutputDeltas& out) {
  if (field_ == Field::kFunction && c == '{' && functions_ == 0) {
    ++functions_;
    state_ = State::kKey;
    return Step::kMore;
  }
  if (field_ == Field::kFunction) field_ = name_.empty() ? Field::kName : Field::kOther;
  state_ = State::kInValue;
  scanner_ = {};
  text_.clear();
  if (field_ == Field::kName && c != '"') return Step::kInvalid;
  in_string_arguments_ = field_ == Field::kArguments && c == '"';
  if (field_ == Field::kArguments && c != '{' && !in_string_arguments_) return Step::kInvalid;
  return in_value(c, out);
}

ToolCallObject::Step ToolCallObject::begin_key(char c, OutputDeltas& out) {
  if (c == '}' && state_ == State::kFirstKey) return close(out);
  if (c != '"') return Step::kInvalid;
  state_ = State::kInKey;
  scanner_ = {};
  (void)scanner_.push(c);
  text_.assign(1, c);
  return Step::kMore;
}

ToolCallObject::Step ToolCallObject::end_key() {
  const std::string key = unquoted(text_);
  if (rules_.name_is_key) {
    if (!name_.empty() || key.empty()) return Step::kInvalid;
    name_ = key;
    field_ = Field::kArguments;
    state_ = State::kColon;
    return Step::kMore;
  }
  const bool is_name = key == "name" || key == "tool_name";
  const bool is_arguments = key == "arguments" || key == "parameters";
  if (!is_possible_key(key)) return Step::kInvalid;
  if ((is_name && !name_.empty()) || (is_arguments && has_arguments_))
    return Step::kInvalid;  // the key occurs twice
  if (rules_.name_first && name_.empty() && !is_name && key != "type") return Step::kInvalid;
  if (is_arguments) are_parameters_ = key == "parameters";
  field_ = is_name             ? Field::kName
           : is_arguments      ? Field::kArguments
           : key == "function" ? Field::kFunction
                               : Field::kOther;
  state_ = State::kColon;
  return Step::kMore;
}

bool ToolCallObject::is_possible_key(const std::string& key) const {
  constexpr std::string_view kKeysOfCalls[] = {
      "name", "tool_name", "arguments", "parameters", "function", "type", "tool_call_id", "id"};
  return rules_.names == nullptr || std::ranges::count(kKeysOfCalls, key) > 0;
}

ToolCallObject::Step ToolCallObject::in_value(char c, OutputDeltas& out) {
  const bool raw_control = scanner_.in_string() && static_cast<unsigned char>(c) < 0x20;
  switch (scanner_.push(c)) {
    case JsonScanner::Step::kInvalid:
      return Step::kInvalid;
    case JsonScanner::Step::kEndBefore:
      state_ = State::kComma;
      return after_value(c, out);
    case JsonScanner::Step::kEnd:
      if (field_ == Field::kName || in_string_arguments_)
        text_ += c;
      else if (field_ == Field::kArguments)
        arguments_ += c;
      return end_value(out);
    case JsonScanner::Step::kMore:
      break;
  }
  if (field_ == Field::kName || in_string_arguments_) {
    text_ += c;
  } else if (field_ == Field::kArguments) {
    has_arguments_ = true;
    arguments_ += raw_control ? escaped_control(c) : std::string(1, c);
    if (!name_.empty() && streams()) send(out);
  }
  return Step::kMore;
}

ToolCallObject::Step ToolCallObject::end_value(OutputDeltas& out) {
  state_ = State::kComma;
  if (field_ == Field::kName) {
    name_ = unquoted(text_);
    if (name_.empty() || (rules_.names != nullptr && !rules_.names->contains(name_)))
      return Step::kInvalid;
  }
  if (std::exchange(in_string_arguments_, false) && !read_string_arguments()) return Step::kInvalid;
  if (!name_.empty() && has_arguments_ && streams()) send(out);
  return Step::kMore;
}

bool ToolCallObject::read_string_arguments() {
  arguments_ = unquoted(text_);
  has_arguments_ = true;
  return Json::parse(arguments_, nullptr, false).is_object();
}

ToolCallObject::Step ToolCallObject::after_value(char c, OutputDeltas& out) {
  if (is_call_space(c)) return Step::kMore;
  if (c == '}') return close(out);
  state_ = State::kKey;
  return c == ',' ? Step::kMore : Step::kInvalid;
}

ToolCallObject::Step ToolCallObject::close(OutputDeltas& out) {
  if (functions_ > 0) {
    --functions_;
    state_ = State::kComma;
    return Step::kMore;
  }
  if (name_.empty()) return Step::kInvalid;
  if (rules_.names != nullptr && (!has_arguments_ || (!sent_ && is_schema(arguments_))))
    return Step::kInvalid;
  if (!has_arguments_) arguments_ = "{}";
  send(out);
  return Step::kEnd;
}

void ToolCallObject::send(OutputDeltas& out) {
  if (!sent_) out.call(name_, call_);
  sent_ = true;
  out.arguments(arguments_, call_);
  arguments_.clear();
}

}  // namespace neuronmm::serve
