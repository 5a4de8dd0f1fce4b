#include "text/unicode/letter_case.h"

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

}  // namespace neuronmm::text
