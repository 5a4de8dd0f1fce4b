#pragma once
// The formats of strings that are enforced, as patterns.

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::grammar {

// Anchored at both ends. Nothing for a format that is not enforced.
std::optional<std::string> format_pattern(std::string_view format);
// A format of the standard that is refused rather than left unchecked. Names that the standard does
// not have are annotations ("int32", "password").
bool is_refused_format(std::string_view format);

}  // namespace neuronmm::grammar
