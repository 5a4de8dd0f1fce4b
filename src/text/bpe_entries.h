#pragma once
// The vocabulary and the merges of a tokenizer.json: hundreds of thousands of texts, which as JSON
// values would take most of the time of loading. They are read from the parser's events instead.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/text_arena.h"

namespace neuronmm::text {

struct BpeEntries {
  using Merge = std::pair<std::string_view, std::string_view>;

  TextArena texts;  // what the views refer to
  std::vector<std::pair<std::string_view, int64_t>> vocab;
  std::vector<Merge> merges;
};

// Parses the whole file. model.vocab and model.merges, if they are an object of integers and an
// array of merges ("a b" or ["a", "b"]), go to `entries` and are empty in the value.
Result<nlohmann::json> parse_with_entries(std::string_view text, const std::string& source,
                                          BpeEntries& entries);

// Two tokens and one space, which no token of that form contains. Nothing for other lines.
bool split_merge(std::string_view line, BpeEntries::Merge& merge);

}  // namespace neuronmm::text
