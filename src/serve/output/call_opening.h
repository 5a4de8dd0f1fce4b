#pragma once
// Finds the places in an answer where tool calls of JSON may begin. Models are told to write a mark
// such as "<tool_call>" before a call, but small ones forget it: they write the JSON in a fenced
// block, or alone on a line. JsonCallParser uses this file.

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::serve {

class CallOpening {
 public:
  enum class Kind {
    kMark,   // the mark, which JSON must follow
    kFence,  // the line that begins a block of JSON, such as ```json
    kJson,   // a { or [ that begins a line outside of blocks of code
  };

  // `mark` must outlive the object.
  explicit CallOpening(std::string_view mark) : mark_(mark) {}

  // Adds a byte and appends to `out` the text that certainly stands before an opening. Returns the
  // kind of the opening that ends with this byte, if there is one; held() then has the opening and
  // the white space before it. White space, and bytes that may begin an opening, are held back.
  std::optional<Kind> push(char c, std::string& out);
  const std::string& held() const { return held_; }
  bool only_space() const { return space_ == held_.size(); }  // whether only white space is held
  void clear() { drop(held_.size()); }
  // Says that the answer is inside a block of code, whose text is no call, up to its end.
  void enter_code() { in_code_ = true; }
  // Says that text was passed on that this object has not seen.
  void leave_line() { at_line_start_ = false; }

 private:
  enum class Match { kNone, kPartial, kMark, kFence, kCode, kJson };
  Match match(std::string_view rest, bool begins_line) const;
  static Match match_fence(std::string_view rest);
  // Finds the white space at the beginning of held_. Bytes that were seen before are not read
  // again, since a model may write line ends without end.
  void find_space();
  // Removes bytes from the beginning of held_.
  void drop(size_t bytes);

  std::string_view mark_;
  std::string held_;
  size_t space_ = 0;  // bytes of white space at the beginning of held_
  bool space_has_line_end_ = false;
  bool at_line_start_ = true;  // whether held_ begins a line
  bool in_code_ = false;
};

}  // namespace neuronmm::serve
