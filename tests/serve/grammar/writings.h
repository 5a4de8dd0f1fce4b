#pragma once
// How a document may be written without white space, its properties in any order: a grammar wants
// one order, which depends on the schema.

#include <algorithm>
#include <string>
#include <vector>

#include "serve/grammar/decimal.h"
#include "serve/grammar/schema_document.h"

namespace neuronmm::grammar {

// Numbers as generated: without an exponent, 1.0 as 1.
inline std::vector<std::string> writings(const Json& value) {
  if (value.is_number()) return {Decimal::of(value).text()};
  if (!value.is_structured()) return {value.dump()};
  std::vector<std::vector<std::string>> items;
  std::vector<std::string> results;
  std::vector<size_t> order;
  for (const auto& item : value.items()) {
    const std::string key = value.is_object() ? Json(item.key()).dump() + ":" : "";
    order.push_back(items.size());
    items.emplace_back();
    for (const std::string& text : writings(item.value())) items.back().push_back(key + text);
  }
  do {
    std::vector<std::string> texts = {""};
    for (const size_t i : order) {
      std::vector<std::string> longer;
      for (const std::string& text : texts) {
        for (const std::string& item : items[i]) {
          longer.push_back(text);
          if (!text.empty()) longer.back() += ',';
          longer.back() += item;
        }
      }
      texts = std::move(longer);
    }
    for (const std::string& text : texts) {
      std::string whole(1, value.is_object() ? '{' : '[');
      whole += text;
      whole += value.is_object() ? '}' : ']';
      results.push_back(std::move(whole));
    }
  } while (value.is_object() && std::next_permutation(order.begin(), order.end()));
  return results;
}

}  // namespace neuronmm::grammar
