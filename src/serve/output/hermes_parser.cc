// The parser of the syntax of Hermes, Qwen 2.5 and Qwen 3. Any number of calls may stand after and
// between pieces of content:
//
//   <tool_call>
//   {"name": "f", "arguments": {...}}
//   </tool_call>

#include <optional>

#include "serve/output/marker_scanner.h"
#include "serve/output/tool_call_object.h"
#include "serve/output/tool_call_parser.h"

namespace neuronmm::serve {
namespace {

constexpr std::string_view kCallBegin = "<tool_call>", kCallEnd = "</tool_call>";

class HermesParser : public ToolCallParser {
 public:
  void finish(OutputDeltas& out) override {
    if (object_ && !object_->sent()) out.content(raw_);
    const bool between_calls = calls_ > 0 && text_.only_space();
    if (!object_ && !ending_ && !between_calls) out.content(text_.held());
  }

 protected:
  void push_byte(char c, OutputDeltas& out) override {
    if (object_)
      in_call(c, out);
    else if (ending_)
      after_call(c, out);
    else
      in_text(c, out);
  }

 private:
  void in_text(char c, OutputDeltas& out) {
    std::string certain;
    const bool begins = text_.push(c, certain);
    out.content(certain);
    if (!begins) return;
    raw_ = text_.held();
    text_.clear();
    object_.emplace(calls_);
  }

  void in_call(char c, OutputDeltas& out) {
    const bool was_sent = object_->sent();
    const ToolCallObject::Step step = object_->push(c, out);
    const bool sent = object_->sent();
    if (sent && !was_sent) ++calls_;
    if (!sent) raw_ += c;
    if (step == ToolCallObject::Step::kMore) return;
    object_.reset();
    ending_ = step == ToolCallObject::Step::kEnd;
    if (ending_) return;
    if (!sent) {
      raw_.pop_back();
      out.content(raw_);
    }
    in_text(c, out);
  }

  // Skips the text up to </tool_call>, which a model may forget.
  void after_call(char c, OutputDeltas& out) {
    std::string other;
    const bool ends = end_.push(c, other);
    if (!ends && other.empty()) return;
    ending_ = false;
    if (!ends) other += end_.held();
    end_.clear();
    for (const char byte : other) push_byte(byte, out);
  }

  MarkerScanner text_{kCallBegin}, end_{kCallEnd};
  std::optional<ToolCallObject> object_;
  // The bytes of the current call with its mark, until the call is passed on.
  std::string raw_;
  bool ending_ = false;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_hermes_parser() { return std::make_unique<HermesParser>(); }

}  // namespace neuronmm::serve
