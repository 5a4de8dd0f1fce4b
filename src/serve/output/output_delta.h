#pragma once
// Pieces of an answer after parsing: thoughts, content and tool calls. The parsers produce them and
// the writers of responses send them.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace neuronmm::serve {

// A new piece of the answer's text, with its meaning.
struct OutputDelta {
  enum class Kind {
    kReasoning,
    kContent,
    kCall,       // `text` is the function's name
    kArguments,  // `text` continues the JSON of the arguments of `call`
  };
  Kind kind = Kind::kContent;
  std::string text;
  int64_t call = 0;  // number of the call in the answer, from 0

  bool operator==(const OutputDelta&) const = default;
};

// A list of deltas in order. A delta that continues the previous one is merged with it.
class OutputDeltas {
 public:
  void reasoning(std::string_view text) { add(OutputDelta::Kind::kReasoning, text, 0); }
  void content(std::string_view text) { add(OutputDelta::Kind::kContent, text, 0); }
  void call(std::string_view name, int64_t call) {
    list_.push_back({OutputDelta::Kind::kCall, std::string(name), call});
  }
  void arguments(std::string_view text, int64_t call) {
    add(OutputDelta::Kind::kArguments, text, call);
  }
  bool empty() const { return list_.empty(); }
  const std::vector<OutputDelta>& list() const { return list_; }
  // Returns the list and empties it.
  std::vector<OutputDelta> take() { return std::exchange(list_, {}); }

 private:
  void add(OutputDelta::Kind kind, std::string_view text, int64_t call) {
    if (text.empty()) return;
    if (!list_.empty() && list_.back().kind == kind && list_.back().call == call)
      list_.back().text += text;
    else
      list_.push_back({kind, std::string(text), call});
  }

  std::vector<OutputDelta> list_;
};

}  // namespace neuronmm::serve
