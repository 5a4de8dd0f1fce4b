// The parser of Mistral's two syntaxes. Older tokenizers write a list of objects, tokenizers from
// version 11 on write calls by name:
//
//   [TOOL_CALLS] [{"name": "f", "arguments": {...}}, {...}]
//   [TOOL_CALLS]f[ARGS]{...}[TOOL_CALLS]g[ARGS]{...}
//
// In a call by name, [ARGS] may be missing and [CALL_ID]id may stand before it.

#include <algorithm>
#include <optional>

#include "serve/output/marker_scanner.h"
#include "serve/output/tool_call_object.h"
#include "serve/output/tool_call_parser.h"

namespace neuronmm::serve {
namespace {

constexpr std::string_view kToolCalls = "[TOOL_CALLS]", kArgs = "[ARGS]", kCallId = "[CALL_ID]";
constexpr size_t kMaxNamed = 512;  // limit for a name with its marks, in bytes

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// Returns the name "f" from a text such as "f", "f[ARGS]" or "f[CALL_ID]abc[ARGS]". The result is
// empty if the text has another form.
std::string name_before_arguments(std::string_view text) {
  if (text.ends_with(kArgs)) text.remove_suffix(kArgs.size());
  const size_t id = text.find(kCallId);
  std::string_view name = text.substr(0, id);
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  return std::all_of(name.begin(), name.end(), is_name_byte) ? std::string(name) : std::string();
}

class MistralParser : public ToolCallParser {
 public:
  void finish(OutputDeltas& out) override {
    if (state_ == State::kText && !(calls_ > 0 && text_.only_space())) out.content(text_.held());
    if (state_ != State::kText) out.content(raw_);
  }

 protected:
  void push_byte(char c, OutputDeltas& out) override {
    switch (state_) {
      case State::kText:
        return in_text(c, out);
      case State::kMarked:
        return after_mark(c, out);
      case State::kObject:
        return in_object(c, out);
      case State::kComma:
        return after_object(c, out);
      case State::kName:
        return in_name(c, out);
      case State::kArguments:
        return in_arguments(c, out);
    }
  }

 private:
  enum class State {
    kText,
    kMarked,     // after [TOOL_CALLS]
    kObject,     // in an object of the list
    kComma,      // after an object of the list
    kName,       // in a name, up to the {
    kArguments,  // in the arguments of a call by name
  };

  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

  void in_text(char c, OutputDeltas& out) {
    std::string certain;
    const bool marked = text_.push(c, certain);
    out.content(certain);
    if (!marked) return;
    raw_ = text_.held();
    text_.clear();
    state_ = State::kMarked;
  }

  // Passes on the held bytes as content, because they are not a call, and continues the text with
  // this byte.
  void reject_call(char c, OutputDeltas& out) {
    out.content(raw_);
    raw_.clear();
    state_ = State::kText;
    in_text(c, out);
  }

  void after_mark(char c, OutputDeltas& out) {
    if (is_space(c)) {
      raw_ += c;
    } else if (c == '[') {
      raw_ += c;
      object_.emplace(calls_);
      state_ = State::kObject;
    } else {
      name_.clear();
      state_ = State::kName;
      in_name(c, out);
    }
  }

  void in_object(char c, OutputDeltas& out) {
    const bool was_sent = object_->sent();
    const ToolCallObject::Step step = object_->push(c, out);
    if (step == ToolCallObject::Step::kInvalid) return reject_call(c, out);
    if (!was_sent) raw_ += c;
    if (object_->sent() && !was_sent) {
      ++calls_;
      raw_.clear();
    }
    if (step == ToolCallObject::Step::kEnd) state_ = State::kComma;
  }

  void after_object(char c, OutputDeltas& out) {
    if (is_space(c)) return;
    if (c == ',') {
      object_.emplace(calls_);
      state_ = State::kObject;
    } else if (c == ']') {
      state_ = State::kText;
    } else {
      reject_call(c, out);
    }
  }

  void in_name(char c, OutputDeltas& out) {
    const bool goes_on = is_name_byte(c) || c == ' ' || c == '[' || c == ']';
    if (c != '{' && (!goes_on || name_.size() >= kMaxNamed)) return reject_call(c, out);
    if (c != '{') {
      raw_ += c;
      name_ += c;
      return;
    }
    const std::string name = name_before_arguments(name_);
    if (name.empty()) return reject_call(c, out);
    out.call(name, calls_++);
    raw_.clear();
    scanner_ = {};
    state_ = State::kArguments;
    in_arguments(c, out);
  }

  void in_arguments(char c, OutputDeltas& out) {
    const bool raw_control = scanner_.in_string() && static_cast<unsigned char>(c) < 0x20;
    const JsonScanner::Step step = scanner_.push(c);
    if (step == JsonScanner::Step::kInvalid) return reject_call(c, out);
    out.arguments(raw_control ? escaped_control(c) : std::string(1, c), calls_ - 1);
    if (step == JsonScanner::Step::kEnd) state_ = State::kText;
  }

  State state_ = State::kText;
  MarkerScanner text_{kToolCalls};
  std::optional<ToolCallObject> object_;
  JsonScanner scanner_;
  // The bytes of the current call and of what precedes it, until the call is passed on.
  std::string raw_;
  std::string name_;  // the name with its marks, up to the {
};

}  // namespace

std::unique_ptr<ToolCallParser> make_mistral_parser() { return std::make_unique<MistralParser>(); }

}  // namespace neuronmm::serve
