#pragma once
// Keeps the strings that the open arrays of an answer contain, for arrays whose items must be
// unique (uniqueItems). It reads the answer's JSON while the answer is written. Matcher uses it to
// forbid tokens that would repeat a string. The grammar marks the strings that must be unique.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
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
  // another array. A shorter token leads to the same answer. The time hardly depends on the length
  // of the string that is being written.
  bool would_repeat(std::string_view more, const IsMarkedUnique& is_marked_unique) const;

 private:
  // Reads the strings of JSON byte by byte and takes out their escapes.
  struct StringReader {
    bool is_open = false;  // whether a string is being read
    uint64_t hash = 0;     // of the string so far
    // An unfinished escape: at most two of four hexadecimal digits.
    char escape[12] = {};
    int escape_length = 0;

    // Reads a byte of the answer and appends what it adds to the string. Returns true if it closes
    // the string.
    bool read(char c, std::string& text);

   private:
    void add(char c, std::string& text);
    void end_escape(std::string& text);
  };
  // An open array or object, with the strings of an array by their hashes.
  struct Container {
    bool is_array;
    std::unordered_multimap<uint64_t, std::string> strings;

    // Returns whether one of the strings is `begin` followed by `end`.
    bool contains(uint64_t hash, std::string_view begin, std::string_view end) const;
  };

  StringReader reader_;
  std::string text_;  // the string that is being read
  std::vector<Container> containers_;
};

}  // namespace neuronmm::grammar
