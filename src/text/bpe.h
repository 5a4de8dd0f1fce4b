#pragma once
// Byte pair encoding of one word: its symbols are tokens, then the adjacent pair whose merge was
// learned first (lowest rank; leftmost among equals) becomes one token until no pair has a merge.

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/alphabet.h"
#include "text/merge_borders.h"
#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace neuronmm::text {

// What a BPE model is besides its vocabulary.
struct BpeModel {
  Alphabet::Options alphabet;
  std::vector<MergeBorders::Rule> merges;  // by rank
  bool ignore_merges = false;  // a word that is a token is that token, whatever merges would make
};

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

  // The vocabulary must outlive the Bpe.
  Bpe(const Vocabulary& vocabulary, const BpeModel& model);

  // Thread-safe. A word is UTF-8, or any bytes where words are bytes. What is no token and has no
  // other in its place is left out, as in the tokenizers library.
  void encode(std::string_view word, Workspace& workspace, std::vector<TokenId>& out) const;
  void encode_byte(char byte, std::vector<TokenId>& out) const;

 private:
  // Whether the merges make the token's own symbols into that one token: found out at its first
  // use.
  enum class Whole : uint8_t { kUnknown, kYes, kNo };
  // Symbols of a word that no merge joins with those around them.
  struct Run {
    size_t begin = 0, end = 0;  // its bytes in the word
    bool known = true;          // they spell it
  };

  void index_words();
  std::optional<TokenId> find_word(std::string_view word) const {
    if (word.size() > longest_word_) return {};
    return alphabet_.options().bytes ? words_.find(word) : vocabulary_.find_token(word);
  }
  void encode_symbols(std::string_view word, Workspace& workspace, std::vector<TokenId>& out) const;
  void encode_run(std::string_view word, const Run& run, Workspace& workspace,
                  std::vector<TokenId>& out) const;
  void merge(Workspace& workspace) const;
  bool is_stale(const Workspace::Candidate& candidate, const Workspace& workspace) const;
  void add_candidate(int64_t position, Workspace& workspace) const;

  const Vocabulary& vocabulary_;
  const Alphabet alphabet_;
  const bool ignore_merges_;
  MergeTable merges_;
  MergeBorders borders_;
  TextArena word_texts_;
  TokenTable words_;  // tokens by the bytes that they spell, where words are bytes
  size_t longest_word_ = 0;
  mutable std::vector<std::atomic<Whole>> whole_;
};

}  // namespace neuronmm::text
