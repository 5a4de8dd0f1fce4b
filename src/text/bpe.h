#pragma once
// Byte pair encoding of one word: its bytes become tokens, then the adjacent pair whose merge was
// learned first (lowest rank; leftmost among equals) becomes one token until no pair has a merge.

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/merge_table.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace neuronmm::text {

class Bpe {
 public:
  // What encode() needs for a while; kept by the caller so that words share it.
  struct Workspace {
    struct Symbol {
      TokenId id;
      int64_t previous, next;  // indices; -1: none
    };
    struct Candidate {
      int32_t rank;
      TokenId left, right, merged;
      int64_t position;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> candidates;
  };

  // Both must outlive the Bpe. `ignore_merges`: a word that is a token is that token, whatever the
  // merges would make of it.
  Bpe(const Vocabulary& vocabulary, const MergeTable& merges, bool ignore_merges);

  // Thread-safe. A byte that is no token is left out, as in the tokenizers library.
  void encode(std::string_view word, Workspace& workspace, std::vector<TokenId>& out) const;
  void encode_byte(char byte, std::vector<TokenId>& out) const;

 private:
  // Whether the merges make the token's own bytes into that one token: found out at its first use.
  enum class Whole : uint8_t { kUnknown, kYes, kNo };

  void merge(std::string_view word, Workspace& workspace, std::vector<TokenId>& out) const;
  void add_candidate(int64_t position, Workspace& workspace) const;

  const Vocabulary& vocabulary_;
  const MergeTable& merges_;
  std::array<TokenId, 256> byte_ids_;  // -1: no such token
  bool ignore_merges_;
  mutable std::vector<std::atomic<Whole>> whole_;
};

}  // namespace neuronmm::text
