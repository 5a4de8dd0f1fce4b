#pragma once
// Flags and validators that several commands share, so that a flag has the same name and meaning in
// each of them. A value that a validator refuses is a usage error (exit code 2).

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace neuronmm::apps {

// Adds -o,--output. The flag is also understood as `--out`, which the help does not show.
template <typename Path>
CLI::Option* add_output_option(CLI::App* command, Path& path, const std::string& help) {
  return command->add_option("-o,--output,--out", path, help)->type_name("PATH");
}

// The help text of --statistics, for the commands that calibrate.
inline constexpr const char* kStatisticsHelp =
    "folder with the statistics of a text, which serve every setting. With --calibration it is "
    "made "
    "or completed, without it only read";

// Returns a validator for unsigned values. It is needed because CLI11 reads -1 as the largest
// unsigned number.
inline CLI::Validator whole_number() {
  const auto check = [](const std::string& text) {
    uint64_t value = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error == std::errc() && end == last) return std::string();
    return "expected a whole number from 0, found \"" + text + "\"";
  };
  return {check, "WHOLE"};
}

// Refuses a list of texts that names standard input ("-") twice, since it can be read only once.
inline void require_one_stdin(const char* flag, const std::vector<std::string>& texts) {
  if (std::ranges::count(texts, "-") < 2) return;
  throw CLI::ValidationError(flag, "- is standard input, which can be read once, found it twice");
}

// Returns a validator for real numbers from `lowest` to `highest`, both included. Unlike CLI::Range
// it refuses NaN.
inline CLI::Validator real_range(double lowest, double highest) {
  const auto check = [lowest, highest](const std::string& text) {
    double value = 0.0;
    if (CLI::detail::lexical_cast(text, value) && value >= lowest && value <= highest) {
      return std::string();
    }
    return fmt::format("expected a number from {} to {}, found \"{}\"", lowest, highest, text);
  };
  return {check, fmt::format("[{} - {}]", lowest, highest)};
}

}  // namespace neuronmm::apps
