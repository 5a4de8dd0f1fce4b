#include "io/front_matter.h"

#include <algorithm>
#include <array>

namespace neuronmm::io {
namespace {

constexpr std::string_view kFence = "---";
constexpr std::array<std::string_view, 3> kLicenseKeys = {
    "license:", "license_name:", "license_link:"};

// Returns the first line of `rest` without trailing spaces, and removes it from `rest`.
std::string_view take_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  while (line.ends_with(' ') || line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Returns whether `value` is a space and then at most 199 characters that are safe in YAML without
// quotes.
bool is_plain_value(std::string_view value) {
  if (!value.starts_with(' ') || value.size() < 2 || value.size() > 200) return false;
  return std::ranges::all_of(value.substr(1), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.:/").find(c) != std::string_view::npos;
  });
}

}  // namespace

std::string license_lines(std::string_view readme) {
  if (take_line(readme) != kFence) return {};
  std::string found;
  while (!readme.empty()) {
    const std::string_view line = take_line(readme);
    if (line == kFence) return found;
    for (const std::string_view key : kLicenseKeys) {
      if (line.starts_with(key) && is_plain_value(line.substr(key.size())))
        found += std::string(line) + "\n";
    }
  }
  return {};  // a block without an end is not front matter
}

}  // namespace neuronmm::io
