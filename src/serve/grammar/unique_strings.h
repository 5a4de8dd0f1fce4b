#pragma once
// The strings that the arrays of an answer have already, where they must not come again. It reads
// the answer's JSON as it is written; which strings are meant, the grammar has marked.

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::grammar {

class UniqueStrings {
 public:
  // marked(n): the grammar is in a marked place behind n bytes of the text that was asked about.
  using Marked = std::function<bool(size_t)>;

  void push(std::string_view text);
  // `more`, next, would close a marked string that its array has. Of a second marked string within
  // `more`, or one in another array, that is said unseen: a shorter text leads there as well.
  bool repeats(std::string_view more, const Marked& marked) const;

 private:
  // Of the string that has begun.
  struct OpenString {
    bool is_open = false, escaped = false;
    std::string text;  // as it is written
    // True: `c` has closed it.
    bool read(char c);
  };
  struct Container {
    bool is_array;
    std::set<std::string, std::less<>> strings;
  };

  OpenString string_;
  std::vector<Container> containers_;
};

}  // namespace neuronmm::grammar
