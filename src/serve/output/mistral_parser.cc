// The parser of Mistral's two syntaxes. Older tokenizers write a list of objects, tokenizers from
// version 11 on write calls by name:
//
//   [TOOL_CALLS] [{"name": "f", "arguments": {...}}, {...}]
//   [TOOL_CALLS]f[ARGS]{...}[TOOL_CALLS]g[ARGS]{...}
//
// In a call by name, [ARGS] may be missing and [CALL_ID]id may stand before it.

#include <algorithm>
#include <optional>

#include "serve/output/marked_call_parser.h"
#include "serve/output/tool_call_object.h"

namespace neuronmm::serve {
namespace {

constexpr std::string_view kToolCalls = "[TOOL_CALLS]", kArgs = "[ARGS]", kCallId = "[CALL_ID]";
constexpr size_t kMaxNamed = 512;  // limit for a name with its marks, in bytes. Assumed

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

class MistralParser : public MarkedCallParser {
 public:
  MistralParser() : MarkedCallParser({std::string(kToolCalls)}) {}

 protected:
  void begin_call(std::string_view) override { state_ = State::kMarked; }

  void in_call(char c, OutputDeltas& out) override {
    switch (state_) {
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
    kMarked,     // after [TOOL_CALLS]
    kObject,     // in an object of the list
    kComma,      // after an object of the list
    kName,       // in a name, up to the {
    kArguments,  // in the arguments of a call by name
  };

  void after_mark(char c, OutputDeltas& out) {
    if (is_call_space(c)) {
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
    if (step == ToolCallObject::Step::kInvalid) return reject(c, out);
    if (!was_sent) raw_ += c;
    if (object_->sent() && !was_sent) {
      ++calls_;
      raw_.clear();
    }
    if (step == ToolCallObject::Step::kEnd) state_ = State::kComma;
  }

  void after_object(char c, OutputDeltas& out) {
    if (is_call_space(c)) return;
    if (c == ',') {
      object_.emplace(calls_);
      state_ = State::kObject;
    } else if (c == ']') {
      back_to_text("", out);
    } else {
      reject(c, out);
    }
  }

  void in_name(char c, OutputDeltas& out) {
    const bool goes_on = is_name_byte(c) || c == ' ' || c == '[' || c == ']';
    if (c != '{' && (!goes_on || name_.size() >= kMaxNamed)) return reject(c, out);
    if (c != '{') {
      raw_ += c;
      name_ += c;
      return;
    }
    const std::string name = name_before_arguments(name_);
    if (name.empty()) return reject(c, out);
    out.call(name, calls_++);
    raw_.clear();
    scanner_ = {};
    state_ = State::kArguments;
    in_arguments(c, out);
  }

  void in_arguments(char c, OutputDeltas& out) {
    const JsonScanner::Step step = push_arguments(c, out);
    if (step == JsonScanner::Step::kInvalid) return reject(c, out);
    if (step == JsonScanner::Step::kEnd) back_to_text("", out);
  }

  State state_ = State::kMarked;
  std::optional<ToolCallObject> object_;
  std::string name_;  // the name with its marks, up to the {
};

}  // namespace

std::unique_ptr<ToolCallParser> make_mistral_parser() { return std::make_unique<MistralParser>(); }

}  // namespace neuronmm::serve
