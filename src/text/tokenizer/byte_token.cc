#include "text/tokenizer/byte_token.h"

#include <charconv>

#include <fmt/format.h>

namespace neuronmm::text {

std::string byte_token(char byte) {
  return fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte));
}

std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return {};
  unsigned value = 0;
  const char* const begin = token.data() + 3;
  const auto [end, error] = std::from_chars(begin, begin + 2, value, 16);
  if (error != std::errc() || end != begin + 2) return {};
  return static_cast<char>(value);
}

}  // namespace neuronmm::text
