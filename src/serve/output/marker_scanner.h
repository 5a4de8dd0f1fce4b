#pragma once
// Finds a mark such as "<tool_call>" in a text that arrives byte by byte. White space, and bytes
// that may be the beginning of the mark, are held back, because they are removed if the mark
// follows. The parsers of tool calls use it.

#include <string>
#include <string_view>

namespace neuronmm::serve {

// The search for one mark, which must outlive the scanner.
class MarkerScanner {
 public:
  explicit MarkerScanner(std::string_view mark) : mark_(mark) {}
  // Adds a byte and appends to `out` the text that certainly stands before the mark. Returns true
  // if the mark ends with this byte; held() then has the mark and the white space before it.
  bool push(char c, std::string& out);
  const std::string& held() const { return held_; }
  void clear() { held_.clear(); }
  bool only_space() const;  // whether only white space is held

 private:
  size_t space() const;  // bytes of white space at the beginning of held_

  std::string_view mark_;
  std::string held_;
};

}  // namespace neuronmm::serve
