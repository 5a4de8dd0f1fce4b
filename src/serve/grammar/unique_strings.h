#pragma once
// Keeps the strings that the open arrays of an answer contain, for arrays whose items must be
// unique (uniqueItems). It reads the answer's JSON while the answer is written. Matcher uses it to
// forbid tokens that would repeat a string. The grammar marks the strings that must be unique.

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::grammar {

class UniqueStrings {
 public:
  // A function of n: whether the grammar is in a marked state after n bytes of the text in
  // question.
  using IsMarkedUnique = std::function<bool(size_t)>;

  // Reads the next part of the answer.
  void push(std::string_view text);
  // Returns whether `more`, if it came next, would close a marked string that its array already
  // has. For simplicity, also returns true if `more` closes a second marked string or one of
  // another array. A shorter token leads to the same answer.
  bool would_repeat(std::string_view more, const IsMarkedUnique& is_marked_unique) const;

 private:
  // The string that is being read, if there is one.
  struct OpenString {
    bool is_open = false, escaped = false;
    std::string text;  // the part read so far, with its escapes
    // Reads a character of the answer. Returns true if it closes the string.
    bool read(char c);
  };
  // An open array or object, with the strings of an array.
  struct Container {
    bool is_array;
    std::set<std::string, std::less<>> strings;
  };

  OpenString string_;
  std::vector<Container> containers_;
};

}  // namespace neuronmm::grammar
