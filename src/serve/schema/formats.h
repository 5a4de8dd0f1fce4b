#pragma once
// The string formats of JSON Schema ("date", "email") that are enforced, as regular expressions.
// docs/reference/json_schema.md lists them. The reader of keywords (schema_keywords.cc) compiles
// them like any `pattern`.

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::grammar {

// Returns the pattern of a format, anchored at both ends. Returns nothing for a name that is not
// enforced, such as "int32" or "password", which is then only an annotation.
std::optional<std::string> format_pattern(std::string_view format);
// Returns whether the pattern matches only a part of the format's strings.
bool is_partial_format(std::string_view format);

}  // namespace neuronmm::grammar
