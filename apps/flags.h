#pragma once
// Flags that several commands have, under one name and with one meaning each.

#include <filesystem>
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
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    uint64_t value = 0;
    if (digits && CLI::detail::lexical_cast(text, value)) return std::string();
    return "expected a whole number from 0, found \"" + text + "\"";
  };
  return {check, "WHOLE"};
}

}  // namespace neuronmm::apps
