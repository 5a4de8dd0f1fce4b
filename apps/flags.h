#pragma once
// Flags that several commands have, under one name and with one meaning each.

#include <charconv>
#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace neuronmm::apps {

// -o,--output. `--out`, its older name, is understood too; the help does not show it.
template <typename Path>
CLI::Option* add_output_option(CLI::App* command, Path& path, const std::string& help) {
  return command->add_option("-o,--output,--out", path, help)->type_name("PATH");
}

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

}  // namespace neuronmm::apps
