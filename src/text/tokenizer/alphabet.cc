#include "text/tokenizer/alphabet.h"

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/byte_token.h"

namespace neuronmm::text {
namespace {

constexpr char32_t kPlaneSize = 0x10000;

// Returns the character of a text that is exactly one character.
std::optional<char32_t> only_character(std::string_view text) {
  if (text.empty()) return {};
  const Utf8Step step = next_utf8(text);
  if (static_cast<size_t>(step.length) != text.size()) return {};
  return step.code_point;
}

}  // namespace

Alphabet::Alphabet(const Vocabulary& vocabulary, Options options)
    : vocabulary_(vocabulary),
      options_(std::move(options)),
      affixed_(!options_.continuing_prefix.empty() || !options_.end_suffix.empty()) {
  for (int i = 0; i < 256; ++i) {
    const char byte = static_cast<char>(i);
    std::string token;
    if (options_.bytes)
      append_utf8(character_of_byte(byte), token);
    else if (options_.byte_fallback)
      token = byte_token(byte);
    byte_ids_[static_cast<size_t>(i)] = vocabulary_.find_token(token).value_or(kNone);
  }
  if (options_.bytes || affixed_) return;
  character_ids_.assign(kPlaneSize, kNone);
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const auto character = only_character(vocabulary_.text(id));
    if (character && *character < kPlaneSize && vocabulary_.find_token(vocabulary_.text(id)) == id)
      character_ids_[*character] = id;
  }
}

std::vector<TokenId> Alphabet::all() const {
  std::vector<TokenId> ids;
  for (const TokenId id : byte_ids_) {
    if (id != kNone) ids.push_back(id);
  }
  if (options_.unknown) ids.push_back(*options_.unknown);
  if (options_.bytes) return ids;
  // If there are affixes, any token may be a character with a prefix or a suffix.
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view text = vocabulary_.text(id);
    if (vocabulary_.find_token(text) != id) continue;
    if (affixed_ || only_character(text)) ids.push_back(id);
  }
  return ids;
}

std::string_view Alphabet::affixed(std::string_view word, size_t begin, size_t end,
                                   std::string& storage) const {
  const std::string_view character = word.substr(begin, end - begin);
  if (!affixed_) return character;
  storage = begin == 0 ? std::string() : options_.continuing_prefix;
  storage += character;
  if (end == word.size()) storage += options_.end_suffix;
  return storage;
}

bool Alphabet::has_bytes_of(std::string_view text) const {
  if (!options_.byte_fallback) return false;
  for (const char byte : text) {
    if (byte_ids_[static_cast<uint8_t>(byte)] == kNone) return false;
  }
  return true;
}

std::optional<TokenId> Alphabet::id_of_byte(char byte) const {
  const TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
  if (id != kNone) return id;
  return options_.bytes ? std::nullopt : options_.unknown;
}

}  // namespace neuronmm::text
