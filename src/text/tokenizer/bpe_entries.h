#pragma once
// Reads the vocabulary and the merges of a tokenizer.json. These are hundreds of thousands of
// texts, and loading would spend most of its time on making JSON values of them. The functions here
// read the events of the JSON parser instead.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer/merge_borders.h"
#include "text/tokenizer/text_arena.h"

namespace neuronmm::text {

// The entries of "vocab" and "merges".
struct BpeEntries {
  using Merge = std::pair<std::string_view, std::string_view>;

  // The memory that the views of parse_with_entries() refer to.
  TextArena texts;
  std::vector<std::pair<std::string_view, int64_t>> vocab;
  std::vector<Merge> merges;
  // The merges as ids of `vocab`, if they are known. `merges` is then empty.
  std::vector<MergeBorders::Rule> rules;
};

// Parses the whole file. An object of integers in model.vocab and an array of merges ("a b" or
// ["a", "b"]) in model.merges go to `entries`, and the returned value holds them as empty. Errors
// begin with `source`.
Result<nlohmann::json> parse_with_entries(std::string_view text, const std::string& source,
                                          BpeEntries& entries);

}  // namespace neuronmm::text
