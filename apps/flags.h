#pragma once
// Flags that several commands have, under one name and with one meaning each.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace neuronmm::apps {

// -o,--output. `--out`, its older name, is understood too; the help does not show it.
template <typename Path>
CLI::Option* add_output_option(CLI::App* command, Path& path, const std::string& help) {
  return command->add_option("-o,--output,--out", path, help)->type_name("PATH");
}

// --statistics of commands that calibrate.
inline constexpr const char* kStatisticsHelp =
    "folder of what a text says of the model, for other settings: it is used as it is, and with a "
    "calibration text it is made if it is not there, and gets what it lacks";

// For unsigned values: CLI11 itself takes -1 for the largest of them.
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

// Standard input has one text.
inline void require_one_stdin(const char* flag, const std::vector<std::string>& texts) {
  if (std::ranges::count(texts, "-") < 2) return;
  throw CLI::ValidationError(flag, "- is standard input, which can be read once, found it twice");
}

// Both ends included, like CLI::Range, which however lets NaN through.
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
