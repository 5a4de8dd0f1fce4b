#include "text/unicode/unicode_form.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <utf8proc.h>

#include "base/result.h"
#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

bool composes(UnicodeForm form) { return form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc; }
bool is_compatible(UnicodeForm form) {
  return form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
}

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// Returns the first lead byte that a character which may change can have. A character with a lower
// lead byte is in the form already, has class 0 and combines with nothing before it, so that text
// may be cut before it. For NFC these are the characters below U+0300. The other forms decompose
// accented letters or, if compatible, characters like "²".
uint8_t first_unstable_lead(UnicodeForm form) { return form == UnicodeForm::kNfc ? 0xCC : 0x80; }

utf8proc_option_t options_of(UnicodeForm form) {
  int options = UTF8PROC_STABLE | (composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (is_compatible(form)) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Decomposes the text completely. utf8proc_decompose sorts marks by insertion, which takes minutes
// for a text of a million marks, so this function sorts them itself.
void decompose(std::string_view text, utf8proc_option_t options,
               std::vector<utf8proc_int32_t>& out) {
  // The largest number of code points, which U+FDFA has (Unicode, UAX 15, table 8).
  constexpr int kMaxExpansion = 18;
  out.clear();
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    utf8proc_int32_t parts[kMaxExpansion];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point),
                                               parts, kMaxExpansion, options, &boundary);
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

void append_form(std::string_view text, utf8proc_option_t options,
                 std::vector<utf8proc_int32_t>& buffer, std::string& out) {
  decompose(text, options, buffer);
  const auto count = std::ssize(buffer);
  buffer.resize(buffer.size() + 1);  // The function utf8proc_reencode writes a final NUL.
  const auto bytes = utf8proc_reencode(buffer.data(), count, options);
  NMM_CHECK(bytes >= 0);
  out.append(reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(bytes));
}

}  // namespace

std::string_view to_unicode_form(UnicodeForm form, std::string_view text, std::string& storage) {
  const uint8_t first_unstable = first_unstable_lead(form);
  const auto is_stable = [&](char c) { return static_cast<uint8_t>(c) < first_unstable; };
  const auto is_unstable_lead = [&](char c) { return !is_continuation(c) && !is_stable(c); };
  const auto is_stable_lead = [&](char c) { return !is_continuation(c) && is_stable(c); };
  auto unstable = std::find_if(text.begin(), text.end(), is_unstable_lead);
  if (unstable == text.end()) return text;

  storage.clear();
  const utf8proc_option_t options = options_of(form);
  std::vector<utf8proc_int32_t> buffer;
  auto done = text.begin();
  while (unstable != text.end()) {
    // A change may begin with the stable character before it, as for "e" and U+0301.
    auto first = unstable;
    while (first != done && is_continuation(*--first)) {
    }
    const auto last = std::find_if(unstable, text.end(), is_stable_lead);
    storage.append(done, first);
    append_form({first, last}, options, buffer, storage);
    done = last;
    unstable = std::find_if(last, text.end(), is_unstable_lead);
  }
  storage.append(done, text.end());
  return storage;
}

}  // namespace neuronmm::text
