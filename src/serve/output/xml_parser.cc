// The parser of the syntax of Qwen3-Coder and Qwen 3.5. Any number of calls may stand after and
// between pieces of content:
//
//   <tool_call>
//   <function=f>
//   <parameter=city>
//   Paris
//   </parameter>
//   </function>
//   </tool_call>
//
// The value of a parameter stands between line ends. It is a string unless the tool's schema gives
// another type (tool_parameter.h).

#include <array>
#include <cctype>
#include <optional>

#include "serve/output/marker_scanner.h"
#include "serve/output/tool_call_parser.h"
#include "serve/output/tool_parameter.h"

namespace neuronmm::serve {
namespace {

constexpr std::string_view kXmlBegin = "<tool_call>", kXmlEnd = "</tool_call>",
                           kFunctionTag = "<function=", kFunctionEnd = "</function>",
                           kParameterTag = "<parameter=";
constexpr std::array<std::string_view, 2> kValueEnds = {"\n</parameter>", "</parameter>"};
constexpr size_t kMostTagBytes = 256;

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

class XmlParser : public ToolCallParser {
 public:
  explicit XmlParser(ToolList tools) : tools_(std::move(tools)) {}

  void finish(OutputDeltas& out) override {
    const bool between_calls = calls_ > 0 && text_.only_space();
    if (state_ == State::kText && !between_calls) out.content(text_.held());
    if (state_ == State::kFunction || state_ == State::kName) out.content(raw_);
  }

 protected:
  void push_byte(char c, OutputDeltas& out) override {
    switch (state_) {
      case State::kText:
        return in_text(c, out);
      case State::kFunction:
        return before_function(c, out);
      case State::kName:
        return in_name(c, out);
      case State::kParameters:
        return between_parameters(c, out);
      case State::kKey:
        return in_key(c, out);
      case State::kValue:
        return in_value(c, out);
      case State::kEnd:
        return after_call(c, out);
    }
  }

 private:
  enum class State { kText, kFunction, kName, kParameters, kKey, kValue, kEnd };

  void in_text(char c, OutputDeltas& out) {
    std::string certain;
    const bool begins = text_.push(c, certain);
    out.content(certain);
    if (!begins) return;
    raw_ = text_.held();
    text_.clear();
    enter(State::kFunction);
  }

  void enter(State state) {
    state_ = state;
    held_.clear();
  }

  // Passes on `content`, which is not part of a call, and continues the text with `c`, which may
  // begin a call.
  void back_to_text(const std::string& content, char c, OutputDeltas& out) {
    enter(State::kText);
    out.content(content);
    in_text(c, out);
  }

  void before_function(char c, OutputDeltas& out) {
    if (!held_.empty() || !is_space(c)) held_ += c;
    if (!kFunctionTag.starts_with(held_)) return back_to_text(raw_, c, out);
    raw_ += c;
    if (held_ == kFunctionTag) enter(State::kName);
  }

  // Adds a byte of a name. Returns the name if `c` is the '>' that ends it.
  std::optional<std::string> read_name(char c) {
    if (c == '>' && !held_.empty()) return held_;
    held_ += c;
    return std::nullopt;
  }
  bool is_invalid_name() const {
    return held_.size() > kMostTagBytes || held_.find_first_of("<>\n\r") != std::string::npos;
  }

  void in_name(char c, OutputDeltas& out) {
    const auto name = read_name(c);
    if (!name && is_invalid_name()) return back_to_text(raw_, c, out);
    raw_ += c;
    if (!name) return;
    function_ = *name;
    no_parameter_yet_ = true;
    out.call(function_, calls_++);
    enter(State::kParameters);
  }

  void send_arguments(std::string_view json, OutputDeltas& out) { out.arguments(json, calls_ - 1); }

  void end_arguments(OutputDeltas& out) { send_arguments(no_parameter_yet_ ? "{}" : "}", out); }

  void between_parameters(char c, OutputDeltas& out) {
    if (held_.empty() && is_space(c)) return;
    held_ += c;
    if (held_ == kParameterTag) return enter(State::kKey);
    if (held_ == kFunctionEnd) {
      end_arguments(out);
      return enter(State::kEnd);
    }
    if (kParameterTag.starts_with(held_) || kFunctionEnd.starts_with(held_)) return;
    held_.pop_back();
    end_arguments(out);
    back_to_text(std::string(held_), c, out);
  }

  void in_key(char c, OutputDeltas& out) {
    const auto name = read_name(c);
    if (name) {
      kind_ = parameter_kind(*tools_, function_, *name);
      key_ = fmt::format("{}\"{}\": ", std::exchange(no_parameter_yet_, false) ? "{" : ", ",
                         escaped(*name));
      value_.clear();
      value_begun_ = false;
      enter(State::kValue);
    } else if (is_invalid_name()) {
      held_.pop_back();
      end_arguments(out);
      back_to_text(std::string(kParameterTag) + held_, c, out);
    }
  }

  // Adds a byte of a value. Strings are passed on as they come, except for bytes that may belong to
  // the end tag.
  void in_value(char c, OutputDeltas& out) {
    if (!std::exchange(value_begun_, true)) {
      if (kind_ == ParameterKind::kString) send_arguments(key_ + "\"", out);
      if (c == '\n') return;
    }
    held_ += c;
    for (const std::string_view end : kValueEnds) {
      if (held_ == end) return end_value(out);
    }
    const auto may_end = [&] {
      return kValueEnds[0].starts_with(held_) || kValueEnds[1].starts_with(held_);
    };
    size_t certain = 0;
    std::string rest = held_;
    for (; !may_end(); held_.erase(0, 1)) ++certain;
    rest.resize(certain);
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

  // Skips the text up to </tool_call>, which a model may forget.
  void after_call(char c, OutputDeltas& out) {
    std::string other;
    const bool ends = end_.push(c, other);
    if (!ends && other.empty()) return;
    state_ = State::kText;
    if (!ends) other += end_.held();
    end_.clear();
    for (const char byte : other) push_byte(byte, out);
  }

  const ToolList tools_;
  State state_ = State::kText;
  MarkerScanner text_{kXmlBegin}, end_{kXmlEnd};
  // The bytes of the current call with its mark, until the call is passed on.
  std::string raw_;
  // The bytes of the current tag, or the bytes that may end a value.
  std::string held_;
  std::string function_, key_, value_;
  ParameterKind kind_ = ParameterKind::kString;
  bool no_parameter_yet_ = true;  // no parameter has been read
  bool value_begun_ = false;      // the current value has begun
};

}  // namespace

std::unique_ptr<ToolCallParser> make_xml_parser(ToolList tools) {
  return std::make_unique<XmlParser>(std::move(tools));
}

}  // namespace neuronmm::serve
