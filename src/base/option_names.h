#pragma once
// How messages about settings name the options of whoever gave them: as flags of a command line, or
// as keywords of a Python call.

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
