#pragma once
// Turns bytes that arrive in pieces into UTF-8 text. A piece of the result never ends inside a
// character. U+FFFD replaces bytes that cannot become a character.

#include <string>
#include <string_view>

namespace neuronmm::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD.

// Holds back the bytes of an incomplete character.
class Utf8Stream {
 public:
  // Returns the text that is complete after these bytes.
  std::string push(std::string_view bytes);
  // Returns U+FFFD if an incomplete character is held back.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace neuronmm::text
