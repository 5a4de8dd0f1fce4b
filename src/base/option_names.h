#pragma once
// The names of options in messages about settings: flags for the command line, keywords for Python.

#include <string>
#include <string_view>

namespace neuronmm {

enum class OptionNames { kFlags, kKeywords };

// Returns "--self-generated" or "self_generated" for the keyword "self_generated".
inline std::string option_name(OptionNames names, std::string_view keyword) {
  std::string name(keyword);
  if (names == OptionNames::kKeywords) return name;
  for (char& letter : name) {
    if (letter == '_') letter = '-';
  }
  return "--" + name;
}

}  // namespace neuronmm
