#include "text/unicode/letter_case.h"

#include <algorithm>

#include <utf8proc.h>

#include "text/unicode/utf8.h"

namespace neuronmm::text {

std::string capitalize(std::string_view text) {
  std::string out;
  for (bool first = true; !text.empty(); first = false) {
    const Utf8Step step = next_utf8(text);
    const auto character = static_cast<utf8proc_int32_t>(step.code_point);
    if (step.kind != Utf8Step::Kind::kCharacter) {
      out.append(text.substr(0, static_cast<size_t>(step.length)));
    } else {
      const auto mapped = first ? utf8proc_totitle(character) : utf8proc_tolower(character);
      append_utf8(static_cast<char32_t>(mapped), out);
    }
    text.remove_prefix(static_cast<size_t>(step.length));
  }
  return out;
}

// Every byte that does not continue a character begins one.
int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

}  // namespace neuronmm::text
