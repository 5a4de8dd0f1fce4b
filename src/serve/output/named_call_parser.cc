// The parser of syntaxes that write the name of a function before the JSON of its arguments:
//
//   <function=f>{...}</function>                                                       Functionary
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f                  DeepSeek
//   ```json
//   {...}
//   ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//
//   <start_function_call>call:f{city:<escape>Rome<escape>}<end_function_call> FunctionGemma
//
// Newer models of DeepSeek write f<｜tool▁sep｜>{...} between the marks of a call, and Kimi writes
// functions.f:0<|tool_call_argument_begin|>{...}.

#include <algorithm>
#include <utility>

#include "serve/output/marked_call_parser.h"
#include "serve/output/named_calls.h"
#include "serve/output/python_literal.h"

namespace neuronmm::serve {
namespace {

constexpr size_t kMostHeader = 512;  // limit for a name with its marks, in bytes. Assumed
constexpr size_t kMostFooter = 128;  // limit for the marks after a call, in bytes. Assumed

class NamedCallParser : public MarkedCallParser {
 public:
  explicit NamedCallParser(NamedCallMarks marks)
      : MarkedCallParser({marks.begin}), marks_(std::move(marks)) {}

 protected:
  void begin_call(std::string_view) override {
    header_.clear();
    state_ = State::kHeader;
  }

  void in_call(char c, OutputDeltas& out) override {
    switch (state_) {
      case State::kHeader:
        return in_header(c, out);
      case State::kArguments:
        return in_arguments(c, out);
      case State::kFooter:
        return in_footer(c, out);
    }
  }

  std::string unfinished() const override {
    return state_ == State::kHeader ? raw_ : std::string();
  }

 private:
  enum class State {
    kHeader,     // between the mark and the arguments
    kArguments,  // in the JSON
    kFooter,     // after the JSON, up to the end mark or the next call
  };

  // Returns the name in the text between the mark and the arguments; empty if there is none.
  std::string name_in_header() const {
    std::string name = header_;
    for (const std::string& mark : marks_.around_name) {
      const size_t at = name.find(mark);
      if (at != std::string::npos) name.erase(at, mark.size());
    }
    std::erase_if(name, is_call_space);
    if (marks_.has_number) name.erase(std::min(name.find(':'), name.size()));
    return std::ranges::all_of(name, is_name_byte) ? name : std::string();
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
      return back_to_text("", out);
    }
    raw_.clear();
    out.call(name, calls_++);
    scanner_ = {};
    literal_ = PythonLiteral(marks_.quote);
    state_ = State::kArguments;
    in_arguments(c, out);
  }

  JsonScanner::Step push_literal(char c, OutputDeltas& out) {
    std::string json;
    const JsonScanner::Step step = literal_.push(c, json);
    out.arguments(json, calls_ - 1);
    return step;
  }

  void in_arguments(char c, OutputDeltas& out) {
    const JsonScanner::Step step =
        marks_.quote.empty() ? push_arguments(c, out) : push_literal(c, out);
    if (step == JsonScanner::Step::kInvalid) return back_to_text(std::string_view(&c, 1), out);
    if (step == JsonScanner::Step::kEnd) state_ = State::kFooter;
  }

  // Skips the marks after a call, which a model may forget.
  void in_footer(char c, OutputDeltas& out) {
    raw_ += c;
    if (raw_.ends_with(marks_.end)) {
      back_to_text("", out);
    } else if (!marks_.next.empty() && raw_.ends_with(marks_.next)) {
      header_.clear();
      state_ = State::kHeader;
    } else if (raw_.size() > kMostFooter || !may_be_footer()) {
      back_to_text(raw_, out);
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
  State state_ = State::kHeader;
  PythonLiteral literal_;  // of arguments that are no JSON
  std::string header_;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_named_call_parser(NamedCallMarks marks) {
  return std::make_unique<NamedCallParser>(std::move(marks));
}

}  // namespace neuronmm::serve
