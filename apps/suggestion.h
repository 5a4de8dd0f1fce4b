#pragma once
// What somebody who mistyped a name may have meant.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::apps {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int64_t edit_distance(std::string_view a, std::string_view b);

// The name nearest to `typed`, if it is near enough to be a typing error: at most a third of its
// letters away.
std::optional<std::string> nearest_name(std::string_view typed,
                                        const std::vector<std::string>& names);

}  // namespace neuronmm::apps
