// The parser of the syntax of Llama 3. Calls stand at the beginning of an answer, or anywhere after
// <|python_tag|>:
//
//   {"name": "f", "parameters": {...}}; {...}
//
// An answer may be such an object by chance, so without the tag an object is a call only if it
// names one of the tools. An object that does not begin with a name is passed on as content at
// once. Llama 3.2 and Llama 4 also write lists of Python, [f(city="Rome")].

#include <optional>
#include <utility>

#include "serve/output/marked_call_parser.h"
#include "serve/output/python_calls.h"
#include "serve/output/tool_call_object.h"

namespace neuronmm::serve {
namespace {

class LlamaParser : public MarkedCallParser {
 public:
  explicit LlamaParser(ToolList tools)
      : MarkedCallParser({"<|python_tag|>", "<|python_start|>"}), tools_(std::move(tools)) {
    for (const Tool& tool : *tools_) names_.insert(tool.name);
    leave_text();
  }

  void finish(OutputDeltas& out) override {
    return python_ ? python_->finish(out) : MarkedCallParser::finish(out);
  }

 protected:
  void begin_call(std::string_view) override {
    marked_ = true;
    state_ = State::kBegin;
  }

  void in_call(char c, OutputDeltas& out) override {
    switch (state_) {
      case State::kBegin:
        return at_begin(c, out);
      case State::kPython:
        return in_python(std::string_view(&c, 1), out);
      case State::kObject:
        return in_object(c, out);
      case State::kBetween:
        return between(c, out);
    }
  }

  std::string unfinished() const override {
    return state_ == State::kBetween ? std::string() : raw_;
  }

 private:
  enum class State {
    kBegin,   // at the beginning of the answer, or after a tag
    kPython,  // in a list of Python, and in all that follows it
    kObject,
    kBetween,  // after an object
  };

  void at_begin(char c, OutputDeltas& out) {
    if (c == '{') {
      begin_object();
      in_object(c, out);
    } else if (c == '[' && calls_ == 0) {
      python_ = make_python_call_parser(python_call_marks(ToolSyntax::kPythonic), tools_);
      state_ = State::kPython;
      in_python(std::exchange(raw_, {}) + c, out);
    } else if (is_call_space(c)) {
      raw_ += c;
    } else if (marked_) {
      reject(c, out);
    } else {
      back_to_text(raw_ + c, out);
    }
  }

  void in_python(std::string_view bytes, OutputDeltas& out) {
    python_->push(bytes, out);
    calls_ = python_->calls();
  }

  void begin_object() {
    object_.emplace(calls_, CallObjectRules{.name_first = !marked_});
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
      if (!was_sent) raw_.pop_back();
      return reject(c, out);
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
    if (step == ToolCallObject::Step::kEnd) state_ = State::kBetween;
  }

  void between(char c, OutputDeltas& out) {
    if (c == '{') {
      begin_object();
      return in_object(c, out);
    }
    const bool is_separator = is_call_space(c) || (c == ';' && raw_.find(';') == std::string::npos);
    if (!is_separator) return back_to_text(raw_ + c, out);
    raw_ += c;
  }

  const ToolList tools_;
  std::set<std::string, std::less<>> names_;
  State state_ = State::kBegin;
  std::unique_ptr<ToolCallParser> python_;
  std::optional<ToolCallObject> object_;
  bool marked_ = false;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_llama_parser(const ToolList& tools) {
  return std::make_unique<LlamaParser>(tools);
}

}  // namespace neuronmm::serve
