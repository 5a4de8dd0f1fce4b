#pragma once
// Encodes one word by byte pair encoding. The word's symbols are the first tokens. The adjacent
// pair whose merge has the lowest rank (the leftmost of equals) then becomes one token, until no
// pair has a merge. The results are those of the tokenizers library.

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer/alphabet.h"
#include "text/tokenizer/merge_borders.h"
#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/spelled_bytes.h"
#include "text/tokenizer/vocabulary.h"

namespace neuronmm::text {

// The part of a BPE model that is not its vocabulary.
struct BpeModel {
  Alphabet::Options alphabet;
  // The merges, in the order of their ranks.
  std::vector<MergeBorders::Rule> merges;
  // Encodes a word that is a token as that token, even if merges would make other tokens.
  bool ignore_merges = false;
};

// The encoder of words. It may be used by several threads at once.
class Bpe {
 public:
  // Memory that encode() works in. The caller keeps it, so that words share the allocations.
  struct Workspace {
    struct Symbol {
      TokenId id;
      int64_t previous, next;  // Indices into `symbols`, or -1 where there is no neighbour.
    };
    struct Candidate {
      int32_t rank;
      TokenId left, right, merged;
      int64_t position;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> candidates;
  };

  // The vocabulary and, if words are bytes, the bytes of its tokens must outlive the Bpe.
  Bpe(const Vocabulary& vocabulary, const BpeModel& model, const SpelledBytes& spelled);

  // Appends the tokens of a word, which is UTF-8 or, if words are bytes, any bytes. A symbol
  // without a token and without a replacement is left out, as in the tokenizers library. The
  // function is thread-safe.
  void encode(std::string_view word, Workspace& workspace, std::vector<TokenId>& out) const;
  void encode_byte(char byte, std::vector<TokenId>& out) const;

 private:
  // Whether merging a token's own symbols gives exactly this token. The answer is found when the
  // token is first needed.
  enum class MergesToOneToken : uint8_t { kUnknown, kYes, kNo };
  // A part of a word that no merge joins with the rest of the word.
  struct Run {
    size_t begin = 0, end = 0;  // The bytes of the word.
    // True if the symbols are the tokens of exactly these bytes.
    bool known = true;
  };

  void index_words(const SpelledBytes& spelled);
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
  // Maps the bytes that tokens spell to their ids. Empty unless words are bytes.
  TokenTable words_;
  size_t longest_word_ = 0;
  mutable std::vector<std::atomic<MergesToOneToken>> merges_to_one_token_;
};

}  // namespace neuronmm::text
