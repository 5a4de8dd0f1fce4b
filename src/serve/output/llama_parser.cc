// The parser of the syntax of Llama 3. Calls stand at the beginning of an answer, or anywhere after
// <|python_tag|>:
//
//   {"name": "f", "parameters": {...}}; {...}
//
// An answer may be such an object by chance, so without the tag an object is a call only if it
// names one of the tools. An object that does not begin with a name is passed on as content at
// once.

#include <optional>

#include "serve/output/marker_scanner.h"
#include "serve/output/tool_call_object.h"
#include "serve/output/tool_call_parser.h"

namespace neuronmm::serve {
namespace {

constexpr std::string_view kPythonTag = "<|python_tag|>";

class LlamaParser : public ToolCallParser {
 public:
  explicit LlamaParser(std::set<std::string, std::less<>> names) : names_(std::move(names)) {}

  void finish(OutputDeltas& out) override {
    switch (state_) {
      case State::kBegin:
        out.content(white_space_);
        break;
      case State::kText:
        out.content(text_.held());
        break;
      case State::kObject:
        out.content(raw_);
        break;
      case State::kBetween:
        break;
    }
  }

 protected:
  void push_byte(char c, OutputDeltas& out) override {
    switch (state_) {
      case State::kBegin:
        return at_begin(c, out);
      case State::kText:
        return in_text(c, out);
      case State::kObject:
        return in_object(c, out);
      case State::kBetween:
        return between(c, out);
    }
  }

 private:
  enum class State { kBegin, kText, kObject, kBetween };

  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

  void at_begin(char c, OutputDeltas& out) {
    if (is_space(c)) {
      white_space_ += c;
      return;
    }
    if (c == '{') {
      begin_object(white_space_, false);
      in_object(c, out);
      return;
    }
    state_ = State::kText;
    for (const char byte : white_space_ + c) in_text(byte, out);
  }

  void in_text(char c, OutputDeltas& out) {
    std::string certain;
    const bool marked = text_.push(c, certain);
    out.content(certain);
    if (marked) begin_object(text_.held(), true);
    if (marked) text_.clear();
  }

  void begin_object(std::string_view before, bool marked) {
    raw_ = before;
    marked_ = marked;
    object_.emplace(calls_, CallObjectRules{.name_first = !marked});
    state_ = State::kObject;
  }

  // Adds a byte of an object. The deltas of the object are held back until its name is the name of
  // a tool.
  void in_object(char c, OutputDeltas& out) {
    const bool was_sent = object_->sent();
    OutputDeltas deltas;
    const ToolCallObject::Step step = object_->push(c, deltas);
    const bool known = marked_ || names_.contains(object_->name());
    const bool invalid = step == ToolCallObject::Step::kInvalid || (object_->sent() && !known);
    if (!was_sent) raw_ += c;
    if (invalid) {
      state_ = State::kText;
      if (was_sent) return in_text(c, out);
      raw_.pop_back();
      out.content(raw_);
      raw_.clear();
      return in_text(c, out);
    }
    for (const OutputDelta& delta : deltas.list()) {
      if (delta.kind == OutputDelta::Kind::kCall)
        out.call(delta.text, delta.call);
      else
        out.arguments(delta.text, delta.call);
    }
    if (object_->sent() && !was_sent) {
      ++calls_;
      raw_.clear();
    }
    if (step == ToolCallObject::Step::kEnd) {
      state_ = State::kBetween;
      white_space_.clear();
    }
  }

  void between(char c, OutputDeltas& out) {
    white_space_ += c;
    if (is_space(c)) return;
    if (c == ';' && white_space_.find(';') + 1 == white_space_.size()) return;
    if (c == '{') {
      white_space_.pop_back();
      begin_object(white_space_, marked_);
      return in_object(c, out);
    }
    state_ = State::kText;
    for (const char byte : std::exchange(white_space_, {})) in_text(byte, out);
  }

  const std::set<std::string, std::less<>> names_;
  State state_ = State::kBegin;
  MarkerScanner text_{kPythonTag};
  std::optional<ToolCallObject> object_;
  std::string white_space_;  // white space before a call, with the semicolon between calls
  // The bytes of the current call and of what precedes it, until the call is passed on.
  std::string raw_;
  bool marked_ = false;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_llama_parser(std::set<std::string, std::less<>> names) {
  return std::make_unique<LlamaParser>(std::move(names));
}

}  // namespace neuronmm::serve
