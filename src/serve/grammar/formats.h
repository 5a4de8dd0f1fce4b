#pragma once
// The formats of strings that are enforced, as patterns.

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::grammar {

// Anchored at both ends. Nothing for names that the standard does not have, which are annotations
// ("int32", "password").
std::optional<std::string> format_pattern(std::string_view format);
// Whether the pattern has some of the format's strings only.
bool is_partial_format(std::string_view format);

}  // namespace neuronmm::grammar
