#include "suggestion.h"

#include <algorithm>

namespace neuronmm::apps {

int64_t edit_distance(std::string_view a, std::string_view b) {
  // distance[i][j] is the edit distance between the first i letters of a and the first j of b.
  std::vector<std::vector<int64_t>> distance(a.size() + 1, std::vector<int64_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) distance[i][0] = static_cast<int64_t>(i);
  for (size_t j = 0; j <= b.size(); ++j) distance[0][j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t replaced = distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      int64_t& best = distance[i][j];
      best = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) best = std::min(best, distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

std::optional<std::string> nearest_name(std::string_view typed,
                                        const std::vector<std::string>& names) {
  constexpr size_t kMaxTypedLength = 64;  // letters; a longer text is no mistyped name. Assumed.
  if (typed.size() > kMaxTypedLength) return std::nullopt;
  std::optional<std::string> nearest;
  int64_t nearest_distance = 0;
  for (const std::string& name : names) {
    const int64_t distance = edit_distance(typed, name);
    const auto max_distance = std::max<int64_t>(1, static_cast<int64_t>(name.size()) / 3);
    if (distance > max_distance || (nearest && distance >= nearest_distance)) continue;
    nearest = name;
    nearest_distance = distance;
  }
  return nearest;
}

}  // namespace neuronmm::apps
