#pragma once
// Reads one tool call that is written as Python, such as f(city="Rome", days=[1, 2]), byte by byte.
// PythonCallParser uses it.

#include <cstdint>
#include <string>

#include "serve/output/output_delta.h"
#include "serve/output/python_literal.h"
#include "serve/requests/chat_tools.h"

namespace neuronmm::serve {

// The state of reading one call. Nothing is passed on until the first argument's name is known;
// after that the arguments are passed on as they come. Arguments without a name have the names of
// the tool's properties, in their order. print(f(...)) is f(...), and a module before the name of
// a tool is dropped.
class PythonCall {
 public:
  enum class Step {
    kMore,
    kEnd,      // the call ends with this byte, the last )
    kInvalid,  // the bytes so far cannot begin a call
  };
  // Demands on a text that may be a call.
  struct Rules {
    bool known_name = false;       // the name of a tool
    bool named_arguments = false;  // an argument, and a name for each
  };
  // `call` is the number of the call in the deltas.
  PythonCall(int64_t call, ToolList tools, Rules rules)
      : call_(call), tools_(std::move(tools)), rules_(rules) {}
  Step push(char c, OutputDeltas& out);
  bool sent() const { return sent_; }
  // Returns whether a call may begin with this byte.
  static bool may_begin(char c);

 private:
  enum class State {
    kName,
    kArgument,  // expects an argument or the end
    kKey,       // in the name of an argument, or in a value without a name
    kValue,
    kAfter,    // after an argument
    kWrapped,  // after a call in print(...)
  };
  Step in_name(char c);
  Step end_name();
  bool may_be_known() const;  // whether the name may be that of a tool
  Step in_argument(char c, OutputDeltas& out);
  Step in_key(char c, OutputDeltas& out);
  Step in_value(char c, OutputDeltas& out);
  Step after_argument(char c, OutputDeltas& out);
  Step begin_unnamed(std::string_view bytes, OutputDeltas& out);
  void begin_value(const std::string& key, OutputDeltas& out);
  Step close(OutputDeltas& out);
  void send(std::string_view arguments, OutputDeltas& out);

  const int64_t call_;
  const ToolList tools_;
  const Rules rules_;
  State state_ = State::kName;
  PythonLiteral literal_;
  std::string name_, key_;
  size_t arguments_ = 0;  // arguments that have begun
  bool wrapped_ = false, sent_ = false;
};

}  // namespace neuronmm::serve
