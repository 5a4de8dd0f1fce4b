#pragma once
// The part that most parsers of tool calls share: text up to a mark, calls after it, and the way
// back to the text.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/output/call_bytes.h"
#include "serve/output/json_scanner.h"
#include "serve/output/marker_scanner.h"
#include "serve/output/tool_call_parser.h"

namespace neuronmm::serve {

// A parser that is in the text of an answer or in calls.
class MarkedCallParser : public ToolCallParser {
 public:
  void finish(OutputDeltas& out) override;

 protected:
  // The marks begin calls. None may begin another one.
  explicit MarkedCallParser(std::vector<std::string> marks) : text_(std::move(marks)) {}

  void push_byte(char c, OutputDeltas& out) final;
  // Begins to read calls after a mark. raw_ has the mark and the white space before it.
  virtual void begin_call(std::string_view mark) = 0;
  // Adds a byte of calls.
  virtual void in_call(char c, OutputDeltas& out) = 0;
  // Returns the bytes of an unfinished call that are content, when the answer ends inside a call.
  virtual std::string unfinished() const { return raw_; }

  void leave_text() { in_text_ = false; }
  // Goes back to the text, which continues with these bytes.
  void back_to_text(std::string_view bytes, OutputDeltas& out);
  // Passes on raw_ as content, because it is no call, and continues the text with `c`.
  void reject(char c, OutputDeltas& out);
  // Adds a byte of arguments that are JSON, and passes it on unless it is invalid there.
  JsonScanner::Step push_arguments(char c, OutputDeltas& out);

  // The bytes of the current call and of what precedes it, until the call is passed on.
  std::string raw_;
  JsonScanner scanner_;  // of the arguments

 private:
  bool in_text_ = true;
  MarkerScanner text_;
};

}  // namespace neuronmm::serve
