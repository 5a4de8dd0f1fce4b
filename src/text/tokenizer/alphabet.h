#pragma once
// Splits a word into the symbols that BPE starts from. A symbol stands for a byte or for a
// character, and the options say what replaces a character that the vocabulary lacks. Bpe is the
// only user.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/token_id.h"
#include "text/tokenizer/vocabulary.h"
#include "text/unicode/utf8.h"

namespace neuronmm::text {

// Reads the symbols of words according to the options of a BPE model.
class Alphabet {
 public:
  struct Options {
    // Words are bytes, and the vocabulary spells them with the characters of byte_level.h. A byte
    // without a token is left out. The other options have no meaning in this case.
    bool bytes = false;
    // Text that is put before every character of a word except the first one.
    std::string continuing_prefix;
    // Text that is put after the last character of a word.
    std::string end_suffix;
    // Replaces an unknown character by the tokens of its bytes, if all of them exist.
    bool byte_fallback = false;
    // The token for other unknown characters. Without a value they are left out.
    std::optional<TokenId> unknown;
    // Replaces several unknown characters in a row by one unknown token.
    bool fuse_unknown = false;
  };
  struct Symbol {
    TokenId id;
    size_t begin, end;  // The bytes of the word that the symbol stands for.
    bool known;         // True if the symbol is the token of exactly these bytes.
  };

  // The vocabulary must outlive the alphabet.
  Alphabet(const Vocabulary& vocabulary, Options options);

  // Returns true if the symbols of a piece of text do not depend on its position in the word.
  bool has_no_affixes() const { return !affixed_; }
  const Options& options() const { return options_; }
  // Returns every symbol that can occur in some word. The list may contain a symbol twice.
  std::vector<TokenId> all() const;

  // Calls on_symbol(symbol) for every symbol from left to right. One exception follows the
  // tokenizers library: an unknown symbol is held back while byte tokens follow, and comes after
  // them.
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
  // Returns the token for a byte that belongs to no character, if there is one.
  std::optional<TokenId> id_of_byte(char byte) const;

 private:
  static constexpr TokenId kNone = -1;

  template <typename OnSymbol>
  void read_characters(std::string_view word, const OnSymbol& on_symbol) const {
    // An unknown symbol that is held back, because more characters may be fused with it.
    std::optional<Symbol> unknown;
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
  // Returns the character at [begin, end), with the prefix and the suffix that its position asks
  // for. The result may refer to `storage`.
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
  // The tokens of the bytes themselves, or of "<0x00>" ... "<0xFF>".
  std::array<TokenId, 256> byte_ids_;
  // The tokens of the characters of the Basic Multilingual Plane.
  std::vector<TokenId> character_ids_;
};

}  // namespace neuronmm::text
