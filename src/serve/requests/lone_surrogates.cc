#include "serve/requests/lone_surrogates.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>

namespace neuronmm::serve {
namespace {

constexpr size_t kEscapeLength = 6;  // of \uXXXX

// Returns the code unit of the escape \uXXXX at `place`, or nothing if there is no such escape.
std::optional<uint16_t> escaped_unit(std::string_view json, size_t place) {
  const std::string_view escape = json.substr(std::min(place, json.size()), kEscapeLength);
  if (escape.size() < kEscapeLength || !escape.starts_with("\\u")) return std::nullopt;
  uint16_t unit = 0;
  const char* const end = escape.data() + escape.size();
  const auto [stop, error] = std::from_chars(escape.data() + 2, end, unit, 16);
  return error == std::errc() && stop == end ? std::optional(unit) : std::nullopt;
}

bool is_high(uint16_t unit) { return (unit & 0xfc00) == 0xd800; }
bool is_low(uint16_t unit) { return (unit & 0xfc00) == 0xdc00; }

}  // namespace

// A backslash begins an escape wherever it stands, because JSON has none outside of strings.
std::optional<std::string> without_lone_surrogates(std::string_view json) {
  std::optional<std::string> changed;
  for (size_t at = json.find('\\'); at < json.size(); at = json.find('\\', at)) {
    const auto unit = escaped_unit(json, at);
    if (!unit) {
      at += 2;
    } else if (is_high(*unit) && is_low(escaped_unit(json, at + kEscapeLength).value_or(0))) {
      at += 2 * kEscapeLength;
    } else {
      if (is_high(*unit) || is_low(*unit)) {
        if (!changed) changed = std::string(json);
        changed->replace(at, kEscapeLength, "\\ufffd");
      }
      at += kEscapeLength;
    }
  }
  return changed;
}

}  // namespace neuronmm::serve
