#include "text/tokenizer/vocabulary.h"

namespace neuronmm::text {
Status Vocabulary::add_token(std::string_view text, int64_t id) {
  ++count_;
  return insert(tokens_, text, id);
}

Status Vocabulary::add_added(std::string_view text, int64_t id) {
  if (text.empty()) return fail("the token of id {} is empty", id);
  if (tokens_.find(text) == id) {
    if (!added_.find(text))
      added_.insert(texts_[static_cast<size_t>(id)], static_cast<TokenId>(id));
    return {};
  }
  return insert(added_, text, id);
}

Status Vocabulary::insert(TokenTable& table, std::string_view text, int64_t id) {
  if (id < 0 || id >= kMaxSize)
    return fail("{:?} has id {}; ids are 0 to {}", text, id, kMaxSize - 1);
  if (has(id)) return fail("id {} belongs to {:?} and {:?}", id, this->text(id), text);
  if (const auto known = table.find(text))
    return fail("{:?} has id {} and id {}", text, *known, id);
  const std::string_view stored = arena_.store(text);
  // Some vocabularies have an empty token, which no text may find.
  if (!stored.empty()) table.insert(stored, static_cast<TokenId>(id));
  if (id >= size()) texts_.resize(static_cast<size_t>(id) + 1);
  texts_[static_cast<size_t>(id)] = stored;
  return {};
}

// Added tokens come first, because a user who writes "<|eot_id|>" means the added token.
std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto id = added_.find(text);
  return id ? id : tokens_.find(text);
}

}  // namespace neuronmm::text
