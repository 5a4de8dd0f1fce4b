#include "text/letter_case.h"

#include <algorithm>

#include <utf8proc.h>

#include "text/utf8.h"

namespace neuronmm::text {
namespace {

void append_utf8(utf8proc_int32_t code_point, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(code_point, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

}  // namespace

std::string capitalize(std::string_view text) {
  std::string out;
  for (bool first = true; !text.empty(); first = false) {
    const Utf8Step step = next_utf8(text);
    const auto character = static_cast<utf8proc_int32_t>(step.code_point);
    if (step.kind != Utf8Step::Kind::kCharacter) {
      out.append(text.substr(0, static_cast<size_t>(step.length)));
    } else {
      append_utf8(first ? utf8proc_totitle(character) : utf8proc_tolower(character), out);
    }
    text.remove_prefix(static_cast<size_t>(step.length));
  }
  return out;
}

int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

}  // namespace neuronmm::text
