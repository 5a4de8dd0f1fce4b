#pragma once
// Sorts like Python's sorted(): stable, with an error for values that have no order, such as 1 and
// "a". The filters sort, dictsort and groupby use it, and so does the option sort_keys of tojson.

#include <algorithm>
#include <utility>
#include <vector>

#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// Sorts `items` by key_of(item), which returns a Value and cannot fail. Items with equal keys keep
// their order, also if `descending` is true. Fails if two keys cannot be compared or the budget is
// spent; `items` are then unchanged.
template <typename Item, typename KeyOf>
Status sort_by_key(Runtime& runtime, std::vector<Item>& items, const KeyOf& key_of,
                   bool descending) {
  std::vector<std::pair<Value, size_t>> keys;
  for (size_t i = 0; i < items.size(); ++i) keys.emplace_back(key_of(items[i]), i);
  Status status;
  // The merge sort is written out, because std::stable_sort needs an order without contradictions.
  // NaN has none, and after an error no comparison is valid.
  std::vector<std::pair<Value, size_t>> merged(keys.size());
  const auto comes_first = [&](const Value& a, const Value& b) {
    const auto less = compare(runtime, Comparison::kLess, a, b);
    if (!less.ok()) status = less.error();
    return less.ok() && *less;
  };
  for (size_t width = 1; width < keys.size() && status.ok(); width *= 2) {
    for (size_t begin = 0; begin < keys.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, keys.size());
      const size_t end = std::min(begin + 2 * width, keys.size());
      for (size_t i = begin, left = begin, right = middle; i < end; ++i) {
        const bool take_right =
            left == middle ||
            (right < end && (descending ? comes_first(keys[left].first, keys[right].first)
                                        : comes_first(keys[right].first, keys[left].first)));
        merged[i] = keys[take_right ? right++ : left++];
      }
    }
    std::swap(keys, merged);
  }
  NMM_TRY(std::move(status));
  std::vector<Item> sorted;
  for (const auto& [key, i] : keys) sorted.push_back(items[i]);
  items = std::move(sorted);
  return {};
}

}  // namespace neuronmm::text::jinja
