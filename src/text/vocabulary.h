#pragma once
// Tokens by id and ids by token. Words are the tokens that BPE makes, known by their bytes; names
// are the others (added tokens, entries spelled outside the byte alphabet), known by their text.

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/token_table.h"
#include "text/tokenizer.h"

namespace neuronmm::text {

class Vocabulary {
 public:
  // An entry of the BPE model, as tokenizer.json spells it: "Ġthe".
  Status add_spelling(std::string_view spelling, int64_t id);
  // An added token. Its text may be that of an entry with the same id.
  Status add_name(std::string_view name, int64_t id);

  std::optional<TokenId> find_word(std::string_view bytes) const { return words_.find(bytes); }
  // A name or a spelling.
  std::optional<TokenId> find(std::string_view text) const;
  bool has(int64_t id) const {
    return id >= 0 && id < size() && bytes_[static_cast<size_t>(id)].data() != nullptr;
  }
  // Empty where there is no such token.
  std::string_view bytes(int64_t id) const {
    return has(id) ? bytes_[static_cast<size_t>(id)] : std::string_view();
  }
  int64_t size() const { return std::ssize(bytes_); }  // largest id + 1

 private:
  Status insert(TokenTable& table, std::string text, int64_t id);

  TokenTable words_, names_;
  std::deque<std::string> texts_;        // what the tables and bytes_ refer to; they do not move
  std::vector<std::string_view> bytes_;  // by id
};

}  // namespace neuronmm::text
