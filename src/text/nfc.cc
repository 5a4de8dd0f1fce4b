#include "text/nfc.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <utf8proc.h>

#include "base/result.h"
#include "text/utf8.h"

namespace neuronmm::text {
namespace {

// Characters below U+0300 are in form C, combine with nothing before them and have class 0, so text
// may be cut before each of them. In UTF-8 they begin with a byte below 0xCC.
bool is_stable(char lead_byte) { return static_cast<uint8_t>(lead_byte) < 0xCC; }
bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Canonical decomposition. Not utf8proc_decompose: that sorts marks by insertion, which takes
// minutes for a text of a million marks.
void decompose(std::string_view text, std::vector<utf8proc_int32_t>& out) {
  constexpr int kMaxExpansion = 4;  // code points of a canonical decomposition (Unicode, UAX 15)
  out.clear();
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    utf8proc_int32_t parts[kMaxExpansion];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point),
                                               parts, kMaxExpansion, kOptions, &boundary);
    NMM_CHECK(count >= 0 && count <= kMaxExpansion);
    out.insert(out.end(), parts, parts + count);
    text.remove_prefix(static_cast<size_t>(step.length));
  }
  const auto by_class = [](auto a, auto b) { return combining_class(a) < combining_class(b); };
  const auto is_mark = [](auto c) { return combining_class(c) != 0; };
  for (auto it = out.begin(); it != out.end();) {
    const auto marks = std::find_if(it, out.end(), is_mark);
    it = std::find_if_not(marks, out.end(), is_mark);
    std::stable_sort(marks, it, by_class);
  }
}

void append_nfc(std::string_view text, std::vector<utf8proc_int32_t>& buffer, std::string& out) {
  decompose(text, buffer);
  const auto count = std::ssize(buffer);
  buffer.resize(buffer.size() + 1);  // utf8proc_reencode writes a final NUL
  const auto bytes = utf8proc_reencode(buffer.data(), count, kOptions);
  NMM_CHECK(bytes >= 0);
  out.append(reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(bytes));
}

}  // namespace

std::string_view normalize_nfc(std::string_view text, std::string& storage) {
  const auto is_unstable_lead = [](char c) { return !is_continuation(c) && !is_stable(c); };
  const auto is_stable_lead = [](char c) { return !is_continuation(c) && is_stable(c); };
  auto unstable = std::find_if(text.begin(), text.end(), is_unstable_lead);
  if (unstable == text.end()) return text;

  storage.clear();
  std::vector<utf8proc_int32_t> buffer;
  auto done = text.begin();
  while (unstable != text.end()) {
    // What changes may begin with the stable character before: "e" and U+0301.
    auto first = unstable;
    while (first != done && is_continuation(*--first)) {
    }
    const auto last = std::find_if(unstable, text.end(), is_stable_lead);
    storage.append(done, first);
    append_nfc({first, last}, buffer, storage);
    done = last;
    unstable = std::find_if(last, text.end(), is_unstable_lead);
  }
  storage.append(done, text.end());
  return storage;
}

}  // namespace neuronmm::text
