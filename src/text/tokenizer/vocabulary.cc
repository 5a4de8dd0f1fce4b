#include "text/tokenizer/vocabulary.h"

namespace neuronmm::text {

void Vocabulary::reserve(size_t tokens) {
  tokens_.reserve(tokens);
  texts_.reserve(tokens);
}

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
  NMM_TRY(insert(added_, text, id));
  only_added_.insert(static_cast<TokenId>(id));
  return {};
}

Status Vocabulary::insert(TokenTable& table, std::string_view text, int64_t id) {
  if (id < 0 || id >= kMaxSize)
    return fail("{:?} has id {}; ids are 0 to {}", text, id, kMaxSize - 1);
  if (has(id)) return fail("id {} belongs to {:?} and {:?}", id, this->text(id), text);
  const std::string_view stored = arena_.store(text);
  // Some vocabularies have an empty token, which no text may find.
  if (!stored.empty()) {
    if (const auto known = table.insert(stored, static_cast<TokenId>(id)))
      return fail("{:?} has id {} and id {}", text, *known, id);
  }
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
