#pragma once
// Reads a tool call of the form {"name": ..., "arguments": {...}} byte by byte. Most families of
// models write their calls in this form, so the parsers for Hermes, Llama and Mistral share this
// file.

#include <cstdint>
#include <set>
#include <string>

#include "serve/output/json_scanner.h"
#include "serve/output/output_delta.h"

namespace neuronmm::serve {

// Rules for the object of a call.
struct CallObjectRules {
  // The first key is "name", except that "type" may come before.
  bool name_first = false;
  // The only key is the name of the function, and its value the arguments.
  bool name_is_key = false;
  // If set, the object stands where any JSON may stand. It is a call only if it names one of these
  // functions, has arguments, and has no keys that no call has. Arguments under "parameters" that
  // are a JSON schema describe a function and do not call it.
  const std::set<std::string, std::less<>>* names = nullptr;
};

// The state of reading one call. Nothing is passed on until the name is known and the arguments
// have begun; after that the arguments are passed on as they come. The keys may come in any order,
// and unknown keys are skipped. "parameters" is a synonym of "arguments", and "tool_name" of
// "name". A function may stand in an object of its own ({"function": {"name": ...}}), and arguments
// may be JSON in a string, as clients of OpenAI's API have them. Missing arguments become "{}".
class ToolCallObject {
 public:
  enum class Step {
    kMore,
    kEnd,      // the object ends with this byte, the last }
    kInvalid,  // the bytes so far cannot begin such an object
  };
  // `call` is the number of the call in the deltas. The names in `rules` must outlive this object.
  explicit ToolCallObject(int64_t call, CallObjectRules rules = {}) : call_(call), rules_(rules) {}
  Step push(char c, OutputDeltas& out);
  bool sent() const { return sent_; }
  const std::string& name() const { return name_; }

 private:
  enum class State { kOpen, kFirstKey, kKey, kInKey, kColon, kValue, kInValue, kComma };
  enum class Field { kName, kArguments, kFunction, kOther };
  Step begin_key(char c, OutputDeltas& out);
  Step end_key();
  Step in_value(char c, OutputDeltas& out);
  Step begin_value(char c, OutputDeltas& out);
  Step end_value(OutputDeltas& out);
  bool read_string_arguments();
  bool is_possible_key(const std::string& key) const;
  // Returns whether arguments are passed on before the object ends.
  bool streams() const { return rules_.names == nullptr || !are_parameters_; }
  Step after_value(char c, OutputDeltas& out);
  Step close(OutputDeltas& out);
  void send(OutputDeltas& out);

  int64_t call_;
  CallObjectRules rules_;
  State state_ = State::kOpen;
  Field field_ = Field::kOther;
  JsonScanner scanner_;
  std::string text_;       // the current key, or the string of the name
  std::string name_;       // empty until the name is known
  std::string arguments_;  // arguments that are not passed on yet
  bool has_arguments_ = false, sent_ = false;
  bool are_parameters_ = false;       // the arguments' key is "parameters"
  bool in_string_arguments_ = false;  // the arguments are JSON in a string
  int functions_ = 0;                 // open objects under "function"
};

}  // namespace neuronmm::serve
