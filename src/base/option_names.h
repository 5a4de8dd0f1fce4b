#pragma once
// Names options in messages about settings. The libraries compress and fit check settings for the
// command line, whose user knows flags, and for the Python package, whose user knows keywords.

#include <string>
#include <string_view>

namespace neuronmm {

// The names that a message uses: "--self-generated" or "self_generated".
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
