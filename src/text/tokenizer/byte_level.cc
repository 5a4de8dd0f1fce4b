#include "text/tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

constexpr int kNoByte = -1;
constexpr int kCharacters = 256 + 68;

// Returns true for the bytes that are printable characters of Latin-1, which GPT-2's table
// (bytes_to_unicode) keeps. The other bytes become the characters from U+0100 on, in order.
constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<int, kCharacters> byte_of_character() {
  std::array<int, kCharacters> table{};
  for (int& entry : table) entry = kNoByte;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    table[static_cast<size_t>(stands_for_itself(byte) ? byte : next++)] = byte;
  }
  return table;
}

constexpr std::array<int, kCharacters> kByteOfCharacter = byte_of_character();

constexpr std::array<char32_t, 256> character_of_byte_table() {
  std::array<char32_t, 256> table{};
  for (size_t character = 0; character < kCharacters; ++character) {
    const int byte = kByteOfCharacter[character];
    if (byte != kNoByte) table[static_cast<size_t>(byte)] = static_cast<char32_t>(character);
  }
  return table;
}

constexpr std::array<char32_t, 256> kCharacterOfByte = character_of_byte_table();

}  // namespace

// The names of added tokens may contain characters that stand for no byte, for which the result is
// nothing.
std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  if (!bytes_of_spelling(spelling, bytes)) return {};
  return bytes;
}

bool bytes_of_spelling(std::string_view spelling, std::string& bytes) {
  bytes.clear();
  bytes.reserve(spelling.size());
  while (!spelling.empty()) {
    if (const char c = spelling.front(); c >= '!' && c <= '~') {
      bytes.push_back(c);
      spelling.remove_prefix(1);
      continue;
    }
    const Utf8Step step = next_utf8(spelling);
    if (step.kind != Utf8Step::Kind::kCharacter || step.code_point >= kCharacters) return false;
    const int byte = kByteOfCharacter[step.code_point];
    if (byte == kNoByte) return false;
    bytes.push_back(static_cast<char>(byte));
    spelling.remove_prefix(static_cast<size_t>(step.length));
  }
  return true;
}

char32_t character_of_byte(char byte) { return kCharacterOfByte[static_cast<uint8_t>(byte)]; }

}  // namespace neuronmm::text
