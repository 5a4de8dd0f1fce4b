// The parser of syntaxes that write the name of a function before the JSON of its arguments:
//
//   <function=f>{...}</function>                                                       Functionary
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f                  DeepSeek
//   ```json
//   {...}
//   ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//
// Newer models of DeepSeek write f<｜tool▁sep｜>{...} between the marks of a call.

#include <algorithm>
#include <optional>
#include <utility>

#include "serve/output/json_scanner.h"
#include "serve/output/marker_scanner.h"
#include "serve/output/named_calls.h"
#include "serve/output/tool_call_parser.h"

namespace neuronmm::serve {
namespace {

constexpr size_t kMostHeader = 512;  // limit for a name with its marks, in bytes
constexpr size_t kMostFooter = 128;  // limit for the marks after a call, in bytes

bool is_function_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

class NamedCallParser : public ToolCallParser {
 public:
  explicit NamedCallParser(NamedCallMarks marks) : marks_(std::move(marks)), text_(marks_.begin) {}

  void finish(OutputDeltas& out) override {
    if (state_ == State::kText && !(calls_ > 0 && text_.only_space())) out.content(text_.held());
    if (state_ == State::kHeader) out.content(raw_);
  }

 protected:
  void push_byte(char c, OutputDeltas& out) override {
    switch (state_) {
      case State::kText:
        return in_text(c, out);
      case State::kHeader:
        return in_header(c, out);
      case State::kArguments:
        return in_arguments(c, out);
      case State::kFooter:
        return in_footer(c, out);
    }
  }

 private:
  enum class State {
    kText,
    kHeader,     // between the mark and the arguments
    kArguments,  // in the JSON
    kFooter,     // after the JSON, up to the end mark or the next call
  };

  void in_text(char c, OutputDeltas& out) {
    std::string certain;
    const bool marked = text_.push(c, certain);
    out.content(certain);
    if (!marked) return;
    raw_ = text_.held();
    text_.clear();
    header_.clear();
    state_ = State::kHeader;
  }

  void back_to_text(OutputDeltas& out) {
    state_ = State::kText;
    for (const char byte : std::exchange(raw_, {})) in_text(byte, out);
  }

  // Returns the name in the text between the mark and the arguments; empty if there is none.
  std::string name_in_header() const {
    std::string name = header_;
    for (const std::string& mark : marks_.around_name) {
      const size_t at = name.find(mark);
      if (at != std::string::npos) name.erase(at, mark.size());
    }
    std::erase_if(name, [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; });
    return std::ranges::all_of(name, is_function_byte) ? name : std::string();
  }

  void in_header(char c, OutputDeltas& out) {
    raw_ += c;
    if (c != '{' && header_.size() < kMostHeader) {
      header_ += c;
      return;
    }
    const std::string name = c == '{' ? name_in_header() : std::string();
    if (name.empty()) {
      // The mark itself is passed on, so that it does not begin a call again.
      out.content(raw_);
      raw_.clear();
      state_ = State::kText;
      return;
    }
    raw_.clear();
    out.call(name, calls_++);
    scanner_ = {};
    state_ = State::kArguments;
    in_arguments(c, out);
  }

  void in_arguments(char c, OutputDeltas& out) {
    const bool raw_control = scanner_.in_string() && static_cast<unsigned char>(c) < 0x20;
    const JsonScanner::Step step = scanner_.push(c);
    if (step == JsonScanner::Step::kInvalid) {
      raw_.assign(1, c);
      return back_to_text(out);
    }
    out.arguments(raw_control ? escaped_control(c) : std::string(1, c), calls_ - 1);
    if (step == JsonScanner::Step::kEnd) state_ = State::kFooter;
  }

  // Skips the marks after a call, which a model may forget.
  void in_footer(char c, OutputDeltas& out) {
    raw_ += c;
    if (raw_.ends_with(marks_.end)) {
      raw_.clear();
      state_ = State::kText;
    } else if (!marks_.next.empty() && raw_.ends_with(marks_.next)) {
      header_.clear();
      state_ = State::kHeader;
    } else if (raw_.size() > kMostFooter || !may_be_footer()) {
      back_to_text(out);
    }
  }

  // Returns whether the bytes after a call are marks or begin one.
  bool may_be_footer() const {
    std::string_view rest = raw_;
    while (!rest.empty()) {
      if (std::string_view(" \n\r\t`").find(rest.front()) != std::string_view::npos) {
        rest.remove_prefix(1);
        continue;
      }
      const auto fits = [&](const std::string& mark) {
        return !mark.empty() && (mark.starts_with(rest) || rest.starts_with(mark));
      };
      if (fits(marks_.end) || fits(marks_.next)) return true;
      if (!fits(marks_.call_end)) return false;
      rest.remove_prefix(std::min(rest.size(), marks_.call_end.size()));
    }
    return true;
  }

  const NamedCallMarks marks_;
  State state_ = State::kText;
  MarkerScanner text_;
  JsonScanner scanner_;
  // The bytes of the mark and the header, or of the marks after a call.
  std::string raw_;
  std::string header_;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_named_call_parser(NamedCallMarks marks) {
  return std::make_unique<NamedCallParser>(std::move(marks));
}

}  // namespace neuronmm::serve
