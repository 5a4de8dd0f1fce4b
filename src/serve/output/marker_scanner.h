#pragma once
// Finds marks such as "<tool_call>" in a text that arrives byte by byte. White space, and bytes
// that may be the beginning of a mark, are held back, because they are removed if the mark follows.
// The parsers of tool calls use it.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::serve {

// The search for several marks, none of which begins another.
class MarkerScanner {
 public:
  explicit MarkerScanner(std::vector<std::string> marks) : marks_(std::move(marks)) {}
  // Adds a byte and appends to `out` the text that certainly stands before a mark. Returns true if
  // a mark ends with this byte; held() then has the mark and the white space before it.
  bool push(char c, std::string& out);
  const std::string& held() const { return held_; }
  // Returns the held bytes without the white space before them.
  std::string_view mark() const { return std::string_view(held_).substr(space_); }
  void clear();
  bool only_space() const { return space_ == held_.size(); }  // whether only white space is held

 private:
  std::vector<std::string> marks_;
  std::string held_;
  size_t space_ = 0;  // bytes of white space at the beginning of held_
};

}  // namespace neuronmm::serve
