#pragma once
// Added tokens ("<|eot_id|>") found in text before it is split into words.

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace neuronmm::text {

// Flags as in tokenizer.json.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;
  bool normalized = false;   // searched in the text after normalization
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
};

class AddedTokenMatcher {
 public:
  struct Match {
    size_t begin = 0, end = 0;  // with the white space that the token takes
    TokenId id = 0;
  };

  // Contents are distinct and not empty.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  // The leftmost match in text[from, end), the longest among those; white space is not taken from
  // before `from`.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // by content
  std::bitset<256> first_bytes_;
};

}  // namespace neuronmm::text
