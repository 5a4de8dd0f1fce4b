// The parser of calls whose arguments are text between tags (tagged_calls.h). Any number of calls
// may stand after and between pieces of content:
//
//   <tool_call>                                                       Qwen3-Coder and Qwen 3.5
//   <function=f>
//   <parameter=city>
//   Paris
//   </parameter>
//   </function>
//   </tool_call>
//
//   <minimax:tool_call>                                               MiniMax M2
//   <invoke name="f"><parameter name="city">Paris</parameter></invoke>
//   </minimax:tool_call>
//
//   <tool_call>f                                                      GLM from 4.5 on
//   <arg_key>city</arg_key>
//   <arg_value>Paris</arg_value>
//   </tool_call>
//
// A value is a string unless the tool's schema gives another type (tool_parameter.h), or its tag
// says so. A model may forget the tag before its calls. A call must then name one of the tools.

#include <algorithm>
#include <utility>

#include "serve/output/marked_call_parser.h"
#include "serve/output/tagged_calls.h"
#include "serve/output/tool_parameter.h"

namespace neuronmm::serve {
namespace {

constexpr size_t kMostTagBytes = 256;  // limit for a name, or for a tag with its name. Assumed
constexpr std::string_view kCdata = "<![CDATA[", kCdataEnd = "]]>";

// Returns the marks with which calls may begin.
std::vector<std::string> call_beginnings(const CallTags& tags) {
  std::vector<std::string> marks = {tags.begin, tags.name_begin};
  std::erase(marks, "");
  return marks;
}

// Returns the marks that may follow a call: the end of all calls, or another call.
std::vector<std::string> call_followers(const CallTags& tags) {
  std::vector<std::string> marks = {tags.end, tags.name_begin};
  std::erase(marks, "");
  return marks;
}

class TaggedCallParser : public MarkedCallParser {
 public:
  TaggedCallParser(CallTags tags, ToolList tools)
      : MarkedCallParser(call_beginnings(tags)),
        tags_(std::move(tags)),
        tools_(std::move(tools)),
        after_(call_followers(tags_)) {}

 protected:
  void begin_call(std::string_view mark) override {
    is_marked_ = tags_.begin.empty() || mark == tags_.begin;
    enter(mark == tags_.begin && !tags_.name_begin.empty() ? State::kOpened : State::kName);
  }

  void in_call(char c, OutputDeltas& out) override {
    switch (state_) {
      case State::kOpened:
        return before_name(c, out);
      case State::kName:
        return in_name(c, out);
      case State::kParameters:
        return between_parameters(c, out);
      case State::kKey:
        return in_key(c, out);
      case State::kBeforeValue:
        return before_value(c, out);
      case State::kValueBegin:
        return begin_value(c, out);
      case State::kValue:
        return in_value(c, out);
      case State::kEnd:
        return after_call(c, out);
    }
  }

  std::string unfinished() const override {
    return state_ == State::kOpened || state_ == State::kName ? raw_ : std::string();
  }

 private:
  enum class State {
    kOpened,       // after the tag before all calls
    kName,         // in the name of a function
    kParameters,   // between parameters
    kKey,          // in the name of a parameter
    kBeforeValue,  // between a key and its value
    kValueBegin,   // at the beginning of a value
    kValue,
    kEnd,  // after a call
  };

  void enter(State state) {
    state_ = state;
    held_.clear();
  }

  void before_name(char c, OutputDeltas& out) {
    if (!held_.empty() || !is_call_space(c)) held_ += c;
    if (!tags_.name_begin.starts_with(held_)) return reject(c, out);
    raw_ += c;
    if (held_ == tags_.name_begin) enter(State::kName);
  }

  bool is_invalid_name() const {
    return held_.size() > kMostTagBytes || held_.find_first_of("<>\n\r{") != std::string::npos;
  }

  void in_name(char c, OutputDeltas& out) {
    if (held_.empty() && is_call_space(c)) {
      raw_ += c;
      return;
    }
    const bool ends_before = tags_.name_end.empty() && (c == '<' || c == '\n');
    const bool ends = !tags_.name_end.empty() && c == tags_.name_end.front() && !held_.empty();
    held_ += ends || ends_before ? "" : std::string(1, c);
    std::string name = held_.substr(0, held_.find('"'));
    name.erase(name.find_last_not_of(" \r") + 1);
    const bool is_known = std::ranges::find(*tools_, name, &Tool::name) != tools_->end();
    const bool has_space = name.find(' ') != std::string::npos;
    if (is_invalid_name() || ((ends || ends_before) && (has_space || (!is_marked_ && !is_known))))
      return reject(c, out);
    raw_ += c;
    if (!ends && !ends_before) return;
    raw_.clear();
    function_ = name;
    no_parameter_yet_ = true;
    out.call(function_, calls_++);
    enter(State::kParameters);
    if (ends_before) between_parameters(c, out);
  }

  void send_arguments(std::string_view json, OutputDeltas& out) { out.arguments(json, calls_ - 1); }

  void end_arguments(OutputDeltas& out) { send_arguments(no_parameter_yet_ ? "{}" : "}", out); }

  void between_parameters(char c, OutputDeltas& out) {
    if (held_.empty() && is_call_space(c)) return;
    held_ += c;
    if (held_ == tags_.key_begin) return enter(State::kKey);
    if (held_ == tags_.call_end) {
      end_arguments(out);
      return tags_.end.empty() ? back_to_text("", out) : enter(State::kEnd);
    }
    if (held_ == tags_.end) {  // the model forgot the end of the call
      end_arguments(out);
      return back_to_text("", out);
    }
    for (const std::string* tag : {&tags_.key_begin, &tags_.call_end, &tags_.end})
      if (tag->starts_with(held_)) return;
    end_arguments(out);
    leave_call("", c, out);
  }

  // Passes on the held bytes as content, with `before` before them.
  void leave_call(const std::string& before, char c, OutputDeltas& out) {
    held_.pop_back();
    raw_ = before + held_;
    reject(c, out);
  }

  void in_key(char c, OutputDeltas& out) {
    held_ += c;
    if (held_.ends_with(tags_.key_end)) {
      const std::string tag = held_.substr(0, held_.size() - tags_.key_end.size());
      if (!tag.empty()) return end_key(tag);
    }
    // The end of a key may have the bytes that no key has.
    const bool in_end = held_.find(tags_.key_end.front()) != std::string::npos;
    if (held_.size() <= kMostTagBytes && (in_end || !is_invalid_name())) return;
    end_arguments(out);
    leave_call(tags_.key_begin, c, out);
  }

  void end_key(const std::string& tag) {
    const size_t quote = std::min(tag.find('"'), tag.size());
    const std::string key = tag.substr(0, quote);
    const std::string attributes = tag.substr(quote);
    const bool is_string = attributes.find("string=\"true\"") != std::string::npos;
    const bool is_json = attributes.find("string=\"false\"") != std::string::npos;
    kind_ = is_string ? ParameterKind::kString
            : is_json ? ParameterKind::kJson
                      : parameter_kind(*tools_, function_, key);
    key_ = fmt::format("{}\"{}\": ", std::exchange(no_parameter_yet_, false) ? "{" : ", ",
                       escaped(key));
    value_.clear();
    value_ends_ = {tags_.value_end};
    if (tags_.values_have_lines) value_ends_.push_back("\n" + tags_.value_end);
    enter(tags_.value_begin.empty() ? State::kValueBegin : State::kBeforeValue);
  }

  void before_value(char c, OutputDeltas& out) {
    if (held_.empty() && is_call_space(c)) return;
    held_ += c;
    if (held_ == tags_.value_begin) return enter(State::kValueBegin);
    if (tags_.value_begin.starts_with(held_)) return;
    send_arguments(key_ + "null}", out);
    leave_call("", c, out);
  }

  void begin_value(char c, OutputDeltas& out) {
    held_ += c;
    if (tags_.has_cdata && held_ != kCdata && kCdata.starts_with(held_)) return;
    const bool in_cdata = tags_.has_cdata && held_ == kCdata;
    if (in_cdata) value_ends_ = {std::string(kCdataEnd) + tags_.value_end};
    if (in_cdata || (tags_.values_have_lines && held_ == "\n")) held_.clear();
    if (kind_ == ParameterKind::kString) send_arguments(key_ + "\"", out);
    const std::string bytes = held_;
    enter(State::kValue);
    for (const char byte : bytes) in_call(byte, out);
  }

  // Adds a byte of a value. Strings are passed on as they come, except for bytes that may belong to
  // the end tag.
  void in_value(char c, OutputDeltas& out) {
    held_ += c;
    if (std::ranges::count(value_ends_, held_) > 0) return end_value(out);
    const auto may_end = [&](std::string_view rest) {
      return std::ranges::any_of(value_ends_,
                                 [&](const std::string& end) { return end.starts_with(rest); });
    };
    size_t certain = 0;
    while (!may_end(std::string_view(held_).substr(certain))) ++certain;
    const std::string rest = held_.substr(0, certain);
    held_.erase(0, certain);
    if (kind_ == ParameterKind::kString)
      send_arguments(escaped(rest), out);
    else
      value_ += rest;
  }

  void end_value(OutputDeltas& out) {
    send_arguments(kind_ == ParameterKind::kString ? "\"" : key_ + parameter_json(kind_, value_),
                   out);
    enter(State::kParameters);
  }

  // Skips the text up to the end of all calls, which a model may forget, or begins another call.
  void after_call(char c, OutputDeltas& out) {
    std::string other;
    const bool marked = after_.push(c, other);
    if (!marked && other.empty()) return;
    const std::string held = after_.held();
    const bool begins = marked && after_.mark() == tags_.name_begin;
    after_.clear();
    raw_ = held;
    if (begins) return enter(State::kName);
    back_to_text(marked ? "" : other + held, out);
  }

  const CallTags tags_;
  const ToolList tools_;
  State state_ = State::kOpened;
  MarkerScanner after_;
  bool is_marked_ = false;
  std::string held_;  // the bytes of the current tag, or the bytes that may end a value
  std::string function_, key_, value_;
  std::vector<std::string> value_ends_;
  ParameterKind kind_ = ParameterKind::kString;
  bool no_parameter_yet_ = true;  // no parameter has been read
};

}  // namespace

std::unique_ptr<ToolCallParser> make_tagged_call_parser(CallTags tags, ToolList tools) {
  return std::make_unique<TaggedCallParser>(std::move(tags), std::move(tools));
}

}  // namespace neuronmm::serve
