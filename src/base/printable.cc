#include "base/printable.h"

#include <fmt/format.h>

namespace neuronmm {
namespace {

// Returns how many bytes at the start of the text form one UTF-8 character, or 0 if none do.
// Encodings that are longer than needed are not UTF-8, because some terminals would read control
// characters in them. Nor are surrogates and numbers above U+10FFFF (RFC 3629, section 4).
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80   ? 1
                        : byte(0) < 0xc2 ? 0
                        : byte(0) < 0xe0 ? 2
                        : byte(0) < 0xf0 ? 3
                        : byte(0) < 0xf5 ? 4
                                         : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  const unsigned char second = byte(1);
  if (byte(0) == 0xe0 && second < 0xa0) return 0;
  if (byte(0) == 0xed && second > 0x9f) return 0;
  if (byte(0) == 0xf0 && second < 0x90) return 0;
  if (byte(0) == 0xf4 && second > 0x8f) return 0;
  return length;
}

// Returns whether the character is a C0 control, delete, or a C1 control (U+0080 to U+009F, in
// UTF-8 0xc2 0x80 to 0xc2 0x9f).
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1)
    return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

// File names and tensor names come from strangers. Escape sequences in them could move the cursor
// and forge messages.
std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t length = character_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (length > 0 && !is_control(character)) {
      shown += character;
    } else {
      for (const char c : character)
        fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

}  // namespace neuronmm
