#pragma once
// Bytes as they arrive, given as UTF-8: never half a character, and U+FFFD for bytes that can no
// longer become one.

#include <string>
#include <string_view>

namespace neuronmm::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string finish();  // what is still held back

 private:
  std::string held_;
};

}  // namespace neuronmm::text
