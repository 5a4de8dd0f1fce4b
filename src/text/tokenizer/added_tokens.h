#pragma once
// Finds added tokens such as "<|eot_id|>" in a text before the text is split into words. Encoding
// uses one matcher for the raw text and another one for the normalized text.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/token_id.h"
#include "text/unicode/byte_range.h"

namespace neuronmm::text {

// A token that is searched as a whole. The flags have the names that tokenizer.json gives them.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;
  bool normalized = false;   // The token is searched in the text after normalization.
  bool single_word = false;  // The token does not match inside a word.
  bool lstrip = false;       // The match includes the white space before the token.
  bool rstrip = false;       // The match includes the white space after the token.
};

// Searches all tokens with one automaton (Aho-Corasick), so that the time is linear in the length
// of the text for any set of tokens. The automaton reads the text and the tokens backwards. Its
// state at a position therefore knows the longest token that begins there. A forward automaton only
// knows the tokens that end at a position, and would have to start again after each match.
class AddedTokenMatcher {
 public:
  struct Match {
    // The bytes of the match, including the white space that the token takes.
    size_t begin = 0, end = 0;
    TokenId id = 0;
  };

  // The contents of the tokens must be distinct and not empty.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  // Returns the matches from left to right. The leftmost token wins, and the longest one of those
  // that begin at the same place; the search goes on after its content. A token with a byte in a
  // `literal` range does not match; the ranges are sorted and do not overlap. White space that one
  // token has taken is not taken again, but the content of the next token may begin inside it.
  std::vector<Match> find_all(std::string_view text, std::span<const ByteRange> literal = {}) const;

 private:
  struct Node {
    // The longest proper suffix of this node's bytes that is a node, too.
    uint32_t suffix = 0;
    // The index of the longest token that ends at this node, or -1.
    int32_t token = -1;
  };
  struct TokenStart {
    size_t begin;
    int32_t token;
  };

  uint32_t next(uint32_t node, uint8_t byte) const;  // Returns 0 if there is no such edge.
  void link_suffixes(std::span<const uint64_t> edges_by_depth);
  uint32_t step(uint32_t node, uint8_t byte) const;
  std::vector<TokenStart> longest_token_at_each_byte(std::string_view text,
                                                     std::span<const ByteRange> literal) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;  // Node 0 is the state in which nothing has been read.
  // Maps (node, byte) to the node that is one byte longer.
  std::unordered_map<uint64_t, uint32_t> edges_;
  // The edges of node 0, in an array because most bytes of a text are read there.
  std::array<uint32_t, 256> first_edges_ = {};
};

}  // namespace neuronmm::text
