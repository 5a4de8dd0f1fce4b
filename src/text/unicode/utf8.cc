#include "text/unicode/utf8.h"

#include <algorithm>
#include <cstring>

namespace neuronmm::text {
namespace {

struct LeadByte {
  // The length of the whole character; 0 if no character begins with this byte.
  int length;
  // The range of the second byte. Later bytes are 80..BF.
  uint8_t second_min, second_max;
};

// The well-formed sequences of the Unicode standard, table 3-7. The range of the second byte
// excludes overlong forms, surrogates and code points above U+10FFFF.
LeadByte lead_byte_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // No overlong forms.
  if (byte == 0xED) return {3, 0x80, 0x9F};  // No surrogates.
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // Nothing above U+10FFFF.
  return {0, 0, 0};
}

}  // namespace

// Bytes that begin no character form one invalid step if they are a "maximal subpart" of the
// standard. Each of these becomes one U+FFFD, as in other programs.
Utf8Step next_utf8(std::string_view text) {
  const auto byte = [&](int i) { return static_cast<uint8_t>(text[static_cast<size_t>(i)]); };
  const LeadByte lead = lead_byte_of(byte(0));
  if (lead.length == 0) return {Utf8Step::Kind::kInvalid, 1, 0};
  if (lead.length == 1) return {Utf8Step::Kind::kCharacter, 1, byte(0)};
  char32_t code_point = byte(0) & (0xFFu >> (lead.length + 1));
  for (int i = 1; i < lead.length; ++i) {
    if (static_cast<size_t>(i) == text.size()) return {Utf8Step::Kind::kIncomplete, i, 0};
    const uint8_t min = i == 1 ? lead.second_min : 0x80, max = i == 1 ? lead.second_max : 0xBF;
    if (byte(i) < min || byte(i) > max) return {Utf8Step::Kind::kInvalid, i, 0};
    code_point = code_point << 6 | (byte(i) & 0x3Fu);
  }
  return {Utf8Step::Kind::kCharacter, lead.length, code_point};
}

int64_t valid_utf8_length(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t eight;  // Eight ASCII bytes are skipped at once.
    if (text.size() - i >= sizeof(eight)) {
      std::memcpy(&eight, text.data() + i, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof(eight);
        continue;
      }
    }
    const Utf8Step step = next_utf8(text.substr(i));
    if (step.kind != Utf8Step::Kind::kCharacter) break;
    i += static_cast<size_t>(step.length);
  }
  return static_cast<int64_t>(i);
}

// Every byte that does not continue a character begins one.
int64_t count_code_points(std::string_view text) {
  return std::ranges::count_if(
      text, [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; });
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto tail = [](char32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out += {static_cast<char>(0xC0 | code_point >> 6), tail(code_point)};
  } else if (code_point < 0x10000) {
    out += {static_cast<char>(0xE0 | code_point >> 12), tail(code_point >> 6), tail(code_point)};
  } else {
    out += {static_cast<char>(0xF0 | code_point >> 18), tail(code_point >> 12),
            tail(code_point >> 6), tail(code_point)};
  }
}

}  // namespace neuronmm::text
