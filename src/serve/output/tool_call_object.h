#pragma once
// Reads a tool call of the form {"name": ..., "arguments": {...}} byte by byte. Most families of
// models write their calls in this form, so the parsers for Hermes, Llama and Mistral share this
// file.

#include <cstdint>
#include <optional>
#include <string>

#include "serve/output/json_scanner.h"
#include "serve/output/output_delta.h"

namespace neuronmm::serve {

// The state of reading one call. Nothing is passed on until the name is known and the arguments
// have begun; after that the arguments are passed on as they come. The keys may come in any order,
// and unknown keys are skipped. "parameters" is a synonym of "arguments". Missing arguments become
// "{}".
class ToolCallObject {
 public:
  enum class Step {
    kMore,
    kEnd,      // the object ends with this byte, the last }
    kInvalid,  // the bytes so far cannot begin such an object
  };
  // `call` is the number of the call in the deltas. With `name_first`, an object is invalid if its
  // first key is not "name", except that "type" may come before.
  explicit ToolCallObject(int64_t call, bool name_first = false)
      : call_(call), name_first_(name_first) {}
  Step push(char c, OutputDeltas& out);
  bool sent() const { return sent_; }
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
  void send(OutputDeltas& out);

  int64_t call_;
  bool name_first_;
  State state_ = State::kOpen;
  Field field_ = Field::kOther;
  JsonScanner scanner_;
  std::string text_;       // the current key, or the string of the name
  std::string name_;       // empty until the name is known
  std::string arguments_;  // arguments that are not passed on yet
  bool has_arguments_ = false, sent_ = false;
};

}  // namespace neuronmm::serve
