#pragma once
// {"name": ..., "arguments": {...}} read byte by byte: the form of a call that most families of
// models share.

#include <cstdint>
#include <optional>
#include <string>

#include "serve/protocol/json_scanner.h"
#include "serve/protocol/output_delta.h"

namespace neuronmm::serve {

// The call is told once its name is known and its arguments have begun, and the arguments as they
// come; until then nothing is. Keys may come in any order and there may be others; "parameters"
// stands for "arguments", and no arguments at all are "{}".
class ToolCallObject {
 public:
  enum class Step {
    kMore,
    kEnd,      // with this byte, the last }
    kInvalid,  // no such object goes on so
  };
  // `call`: the number under which it is told. `name_first`: an object whose first key is not the
  // name, perhaps behind a "type", is none.
  explicit ToolCallObject(int64_t call, bool name_first = false)
      : call_(call), name_first_(name_first) {}
  Step push(char c, OutputDeltas& out);
  bool told() const { return told_; }
  const std::string& name() const { return name_; }

 private:
  enum class State { kOpen, kFirstKey, kKey, kInKey, kColon, kValue, kInValue, kComma };
  enum class Field { kName, kArguments, kOther };
  Step begin_key(char c, OutputDeltas& out);
  Step end_key();
  Step in_value(char c, OutputDeltas& out);
  Step end_value(OutputDeltas& out);
  Step after_value(char c, OutputDeltas& out);
  Step close(OutputDeltas& out);
  void tell(OutputDeltas& out);

  int64_t call_;
  bool name_first_;
  State state_ = State::kOpen;
  Field field_ = Field::kOther;
  JsonScanner scanner_;
  std::string text_;       // of the key, or of the name's string
  std::string name_;       // empty: not known
  std::string arguments_;  // not told yet
  bool has_arguments_ = false, told_ = false;
};

}  // namespace neuronmm::serve
