#pragma once
// Finds the name that somebody meant who mistyped it. program.cc uses it for unknown commands and
// flags ("did you mean ...?").

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::apps {

// Returns the smallest number of insertions, deletions, replacements and swaps of neighbouring
// letters that turn `a` into `b`.
int64_t edit_distance(std::string_view a, std::string_view b);

// Returns the name with the smallest edit distance to `typed`. Names are left out if the distance
// is more than a third of their letters, though one letter is always allowed.
std::optional<std::string> nearest_name(std::string_view typed,
                                        const std::vector<std::string>& names);

}  // namespace neuronmm::apps
