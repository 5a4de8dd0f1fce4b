// The parser of calls that are written as Python, in a list or not, with marks or at the beginning
// of an answer:
//
//   <|tool_call_start|>[f(city="Rome", days=2), g()]<|tool_call_end|>                  LFM2
//   [f(city="Rome", days=2), g()]                                                      Llama 4
//   <function_calls>                                                                   OLMo 3
//   f(city='Rome', days=2)
//   g()
//   </function_calls>
//   ```tool_code                                                                       Gemma
//   print(f(city="Rome", days=2))
//   ```

#include <algorithm>
#include <optional>
#include <utility>

#include "serve/output/marked_call_parser.h"
#include "serve/output/python_call.h"
#include "serve/output/python_calls.h"

namespace neuronmm::serve {
namespace {

std::vector<std::string> marks_before_calls(const std::vector<PythonCallMarks>& marks) {
  std::vector<std::string> texts;
  for (const PythonCallMarks& mark : marks) texts.push_back(mark.begin);
  return texts;
}

class PythonCallParser : public MarkedCallParser {
 public:
  PythonCallParser(std::vector<PythonCallMarks> marks, ToolList tools)
      : MarkedCallParser(marks_before_calls(marks)),
        marks_(std::move(marks)),
        tools_(std::move(tools)) {
    leave_text();
  }

 protected:
  void begin_call(std::string_view mark) override {
    end_ = std::ranges::find(marks_, mark, &PythonCallMarks::begin)->end;
    is_marked_ = true;
    in_list_ = false;
    state_ = State::kOpened;
  }

  void in_call(char c, OutputDeltas& out) override {
    switch (state_) {
      case State::kOpened:
        return after_opening(c, out);
      case State::kCall:
        return in_one_call(c, out);
      case State::kBetween:
        return between(c, out);
    }
  }

  std::string unfinished() const override {
    return state_ == State::kBetween || call_sent() ? std::string() : raw_;
  }

 private:
  enum class State {
    kOpened,   // after the mark, or at the beginning of the answer
    kCall,     // in a call
    kBetween,  // after a call: another may follow, or the end
  };

  bool call_sent() const { return call_ && call_->sent(); }

  void after_opening(char c, OutputDeltas& out) {
    if (is_call_space(c)) {
      raw_ += c;
    } else if (c == '[' && !in_list_) {
      in_list_ = true;
      raw_ += c;
    } else if (PythonCall::may_begin(c)) {
      begin_python(c, out);
    } else {
      to_text(c, out);
    }
  }

  // Passes on the held bytes as content. At the beginning of an answer, the byte after them may
  // begin a mark, and so may white space.
  void to_text(char c, OutputDeltas& out) {
    if (is_marked_) return reject(c, out);
    back_to_text(raw_ + c, out);
  }

  void begin_python(char c, OutputDeltas& out) {
    const bool is_alone = !is_marked_ && !in_list_;
    call_.emplace(calls_, tools_,
                  PythonCall::Rules{.known_name = !is_marked_, .named_arguments = is_alone});
    state_ = State::kCall;
    in_one_call(c, out);
  }

  void in_one_call(char c, OutputDeltas& out) {
    const bool was_sent = call_->sent();
    const PythonCall::Step step = call_->push(c, out);
    if (call_->sent() && !was_sent) {
      ++calls_;
      raw_.clear();
    }
    if (step == PythonCall::Step::kInvalid) {
      return call_->sent() ? back_to_text(std::string_view(&c, 1), out) : to_text(c, out);
    }
    if (!call_->sent()) raw_ += c;
    if (step != PythonCall::Step::kEnd) return;
    state_ = State::kBetween;
    separators_ = 0;
  }

  void between(char c, OutputDeltas& out) {
    raw_ += c;
    separators_ = std::min(raw_.find_first_not_of(" \n\t\r,;", separators_), raw_.size());
    const std::string_view rest = std::string_view(raw_).substr(separators_);
    if (rest.empty()) return;
    if (in_list_ && rest == "]") {
      in_list_ = false;
      raw_.clear();
      separators_ = 0;
    } else if (!end_.empty() && end_.starts_with(rest)) {
      if (rest == end_) back_to_text("", out);
    } else if (rest.size() == 1 && PythonCall::may_begin(c)) {
      raw_.pop_back();
      begin_python(c, out);
    } else {
      back_to_text(raw_, out);
    }
  }

  const std::vector<PythonCallMarks> marks_;
  const ToolList tools_;
  State state_ = State::kOpened;
  std::string end_;        // the mark after the calls
  size_t separators_ = 0;  // bytes at the beginning of raw_ that stand between calls
  bool is_marked_ = false, in_list_ = false;
  std::optional<PythonCall> call_;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_python_call_parser(std::vector<PythonCallMarks> marks,
                                                        ToolList tools) {
  return std::make_unique<PythonCallParser>(std::move(marks), std::move(tools));
}

}  // namespace neuronmm::serve
