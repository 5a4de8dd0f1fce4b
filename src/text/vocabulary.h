#pragma once
// Tokens by id and ids by token: those of the BPE model, and the added ones.

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_arena.h"
#include "text/token_id.h"
#include "text/token_table.h"

namespace neuronmm::text {

class Vocabulary {
 public:
  // Sixteen times the largest published vocabulary; keeps a hostile id from filling the memory.
  static constexpr int64_t kMaxSize = int64_t{1} << 22;

  // A token of the model, as tokenizer.json writes it: "Ġthe", "▁the".
  Status add_token(std::string_view text, int64_t id);
  // An added token. It may have the text of a model's token, whose id it then has.
  Status add_added(std::string_view text, int64_t id);

  std::optional<TokenId> find_token(std::string_view text) const { return tokens_.find(text); }
  // An added token, or one of the model.
  std::optional<TokenId> find(std::string_view text) const;
  bool has(int64_t id) const {
    return id >= 0 && id < size() && texts_[static_cast<size_t>(id)].data() != nullptr;
  }
  // Empty where there is no such token.
  std::string_view text(int64_t id) const {
    return has(id) ? texts_[static_cast<size_t>(id)] : std::string_view();
  }
  int64_t size() const { return std::ssize(texts_); }  // largest id + 1
  int64_t tokens() const { return count_; }            // of the model

 private:
  Status insert(TokenTable& table, std::string_view text, int64_t id);

  TextArena arena_;  // what the tables and texts_ refer to
  TokenTable tokens_, added_;
  std::vector<std::string_view> texts_;  // by id
  int64_t count_ = 0;
};

}  // namespace neuronmm::text
