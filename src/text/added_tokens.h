#pragma once
// Added tokens ("<|eot_id|>") found in text before it is split into words.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/byte_range.h"
#include "text/token_id.h"

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

// All tokens in one automaton (Aho-Corasick), so that the time is linear in the text whatever the
// tokens are. It reads the text backwards, and the tokens too: the state at a place then knows the
// longest token that begins there. Forwards it would only know those that end there, and would have
// to begin again after each.
class AddedTokenMatcher {
 public:
  struct Match {
    size_t begin = 0, end = 0;  // with the white space that the token takes
    TokenId id = 0;
  };

  // Contents are distinct and not empty.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  // From left to right: the leftmost token, the longest among those, then on behind its content. No
  // token has a byte in a `literal` range (in order, without overlaps). White space that one token
  // has taken is not taken again, but may begin the content of the next.
  std::vector<Match> find_all(std::string_view text, std::span<const ByteRange> literal = {}) const;

 private:
  struct Node {
    uint32_t suffix = 0;  // the longest proper suffix that is a node, too
    int32_t token = -1;   // the longest token that ends here
  };
  struct Hit {
    size_t begin;
    int32_t token;
  };

  uint32_t next(uint32_t node, uint8_t byte) const;  // 0: no such edge
  void link_suffixes(std::span<const uint64_t> edges_by_depth);
  uint32_t step(uint32_t node, uint8_t byte) const;
  std::vector<Hit> tokens_at_every_place(std::string_view text,
                                         std::span<const ByteRange> literal) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;                       // 0: nothing read yet
  std::unordered_map<uint64_t, uint32_t> edges_;  // (node, byte) to the node one byte further
  std::array<uint32_t, 256> first_edges_ = {};    // those of node 0, where most of a text is
};

}  // namespace neuronmm::text
