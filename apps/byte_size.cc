#include "byte_size.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace neuronmm::apps {
namespace {

// Returns the bytes in one `unit`, or nothing if there is no such unit.
std::optional<double> bytes_per_unit(std::string unit) {
  std::ranges::transform(unit, unit.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (unit.ends_with('b')) unit.pop_back();
  if (unit.empty()) return 1.0;
  const bool binary = unit.size() == 2 && unit[1] == 'i';
  const size_t power = std::string_view("kmgt").find(unit[0]);
  if (power == std::string_view::npos || (unit.size() > 1 && !binary)) return std::nullopt;
  return std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power + 1));
}

}  // namespace

Result<int64_t> parse_byte_size(std::string_view text) {
  constexpr double kMostBytes = 1152921504606846976.0;  // 2^60, where double and int64_t are exact
  double number = 0.0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const auto factor = bytes_per_unit(std::string(end, last));
  const double bytes = error == std::errc() && factor ? std::round(number * *factor) : 0.0;
  if (bytes >= 1.0 && bytes < kMostBytes) return static_cast<int64_t>(bytes);
  return fail("expected a size in bytes, as 4G, 80M, 80MB, 80MiB or 512K, found {:?}", text);
}

std::string byte_size_text(int64_t bytes, SizeRounding rounding) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  const bool mega = bytes >= 1'000'000;
  const int64_t tenth = mega ? 100'000 : 100;
  int64_t tenths = bytes / tenth;
  const int64_t rest = bytes % tenth;
  if (rounding == SizeRounding::kUp && rest > 0) ++tenths;
  if (rounding == SizeRounding::kNearest && 2 * rest >= tenth) ++tenths;
  return fmt::format("{}.{} {}", tenths / 10, tenths % 10, mega ? "MB" : "kB");
}

CLI::Validator byte_size() {
  const auto to_bytes = [](std::string& text) {
    const auto bytes = parse_byte_size(text);
    if (!bytes.ok()) return bytes.error().message;
    text = std::to_string(*bytes);
    return std::string();
  };
  return {to_bytes, ""};
}

}  // namespace neuronmm::apps
