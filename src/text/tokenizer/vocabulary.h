#pragma once
// Maps token ids to texts and texts to ids, for the tokens of a BPE model and the added tokens.

#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/text_arena.h"
#include "text/tokenizer/token_id.h"
#include "text/tokenizer/token_table.h"

namespace neuronmm::text {

// Owns the texts of all tokens.
class Vocabulary {
 public:
  // The limit for ids, which keeps a hostile id from filling the memory. Assumed: sixteen times the
  // largest published vocabulary.
  static constexpr int64_t kMaxSize = int64_t{1} << 22;

  // Makes room for tokens of the model.
  void reserve(size_t tokens);
  // Adds a token of the model, spelled as in tokenizer.json ("Ġthe", "▁the"). Fails if the id or
  // the text is in use or the id is too large.
  Status add_token(std::string_view text, int64_t id);
  // Adds an added token, which may have the text and the id of a token of the model. Otherwise it
  // fails like add_token. An empty text is an error, too.
  Status add_added(std::string_view text, int64_t id);

  // Returns the id of a token of the model.
  std::optional<TokenId> find_token(std::string_view text) const { return tokens_.find(text); }
  // Returns the id of an added token, or else of a token of the model.
  std::optional<TokenId> find(std::string_view text) const;
  bool has(int64_t id) const {
    return id >= 0 && id < size() && texts_[static_cast<size_t>(id)].data() != nullptr;
  }
  // Returns true for a token of the model that find_token() finds.
  bool is_token(int64_t id) const {
    return !text(id).empty() && !only_added_.contains(static_cast<TokenId>(id));
  }
  // Returns the text of a token, which is empty if there is no such token.
  std::string_view text(int64_t id) const {
    return has(id) ? texts_[static_cast<size_t>(id)] : std::string_view();
  }
  // The largest id plus 1.
  int64_t size() const { return std::ssize(texts_); }
  // The number of tokens of the model.
  int64_t tokens() const { return count_; }

 private:
  Status insert(TokenTable& table, std::string_view text, int64_t id);

  // The memory that the tables and texts_ refer to.
  TextArena arena_;
  TokenTable tokens_, added_;
  std::vector<std::string_view> texts_;     // The texts by id.
  std::unordered_set<TokenId> only_added_;  // The added tokens that are no tokens of the model.
  int64_t count_ = 0;
};

}  // namespace neuronmm::text
