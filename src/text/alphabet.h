#pragma once
// The symbols that a word consists of before BPE merges them: one for each byte, or one for each
// character with rules for those that the vocabulary lacks.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_id.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace neuronmm::text {

class Alphabet {
 public:
  struct Options {
    // Words are bytes, which the vocabulary spells with the characters of byte_level.h. The other
    // fields have no meaning then: a byte without a token is left out.
    bool bytes = false;
    std::string continuing_prefix;   // before every character but the first of a word
    std::string end_suffix;          // behind the last one
    bool byte_fallback = false;      // an unknown character is its bytes' tokens, if all are there
    std::optional<TokenId> unknown;  // what else it is; nothing: it is left out
    bool fuse_unknown = false;       // several in a row are one
  };
  struct Symbol {
    TokenId id;
    size_t begin, end;  // its bytes in the word
    bool known;         // it is the token of its own text
  };

  // The vocabulary must outlive the alphabet.
  Alphabet(const Vocabulary& vocabulary, Options options);

  // The symbols of every word are those that its text has anywhere.
  bool is_plain() const { return !affixed_; }
  const Options& options() const { return options_; }
  // Each symbol that some word has.
  std::vector<TokenId> all() const;

  // on_symbol(symbol) from left to right; where unknown characters are neither fused nor at once
  // handed on, in the order of the tokenizers library.
  template <typename OnSymbol>
  void read(std::string_view word, const OnSymbol& on_symbol) const {
    if (options_.bytes) {
      for (size_t i = 0; i < word.size(); ++i) {
        const TokenId id = byte_ids_[static_cast<uint8_t>(word[i])];
        if (id != kNone) on_symbol(Symbol{id, i, i + 1, true});
      }
    } else {
      read_characters(word, on_symbol);
    }
  }
  // What stands for a byte that is in no character.
  std::optional<TokenId> id_of_byte(char byte) const;

 private:
  static constexpr TokenId kNone = -1;

  template <typename OnSymbol>
  void read_characters(std::string_view word, const OnSymbol& on_symbol) const {
    std::optional<Symbol> unknown;  // not handed on yet: more may be fused with it
    const auto flush = [&] {
      if (unknown) on_symbol(*unknown);
      unknown.reset();
    };
    std::string storage;
    for (size_t i = 0; i < word.size();) {
      const Utf8Step step = next_utf8(word.substr(i));
      const size_t end = i + static_cast<size_t>(step.length);
      const std::string_view text = affixed(word, i, end, storage);
      const TokenId id = id_of(text, step.code_point);
      if (id != kNone) {
        flush();
        on_symbol(Symbol{id, i, end, !affixed_});
      } else if (has_bytes_of(text)) {
        for (const char byte : text)
          on_symbol(Symbol{byte_ids_[static_cast<uint8_t>(byte)], i, end, false});
      } else if (options_.unknown) {
        if (unknown && options_.fuse_unknown) {
          unknown->end = end;
        } else {
          flush();
          unknown = Symbol{*options_.unknown, i, end, false};
        }
      }
      i = end;
    }
    flush();
  }
  // The character at [begin, end) with what is put around it at that place of the word.
  std::string_view affixed(std::string_view word, size_t begin, size_t end,
                           std::string& storage) const;
  TokenId id_of(std::string_view text, char32_t code_point) const {
    if (!affixed_ && code_point < character_ids_.size()) return character_ids_[code_point];
    return vocabulary_.find_token(text).value_or(kNone);
  }
  bool has_bytes_of(std::string_view text) const;

  const Vocabulary& vocabulary_;
  const Options options_;
  const bool affixed_;
  std::array<TokenId, 256> byte_ids_;   // of the bytes, or of "<0x00>" ... "<0xFF>"
  std::vector<TokenId> character_ids_;  // of the Basic Multilingual Plane
};

}  // namespace neuronmm::text
