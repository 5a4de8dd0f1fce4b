#include "text/vocabulary.h"

#include "text/byte_level.h"

namespace neuronmm::text {
namespace {

// Sixteen times the largest published vocabulary; keeps a hostile id from filling the memory.
constexpr int64_t kMaxVocabSize = int64_t{1} << 22;

}  // namespace

// A token of the model is spelled byte by byte; one whose spelling stands for no bytes has a name.
Status Vocabulary::add_spelling(std::string_view spelling, int64_t id) {
  if (spelling.empty()) return fail("the token of id {} is empty", id);
  std::optional<std::string> word = bytes_of_spelling(spelling);
  if (!word) return insert(names_, std::string(spelling), id);
  return insert(words_, *std::move(word), id);
}

// An added token. Its text means itself and not bytes, also where the vocabulary has it as a
// spelling already.
Status Vocabulary::add_name(std::string_view name, int64_t id) {
  if (name.empty()) return fail("the token of id {} is empty", id);
  if (const auto known = find(name)) {
    if (*known != id) return fail("{:?} has id {} and id {}", name, *known, id);
    if (names_.find(name)) return {};
    bytes_[static_cast<size_t>(id)] = {};  // decodes to its text, not to what that would spell
  }
  return insert(names_, std::string(name), id);
}

// Texts are kept in a deque, which never moves them: the tables hold views of them.
Status Vocabulary::insert(TokenTable& table, std::string text, int64_t id) {
  if (id < 0 || id >= kMaxVocabSize)
    return fail("{:?} has id {}; ids are 0 to {}", text, id, kMaxVocabSize - 1);
  if (has(id)) return fail("id {} belongs to {:?} and {:?}", id, bytes(id), text);
  if (const auto known = table.find(text))
    return fail("{:?} has id {} and id {}", text, *known, id);
  const std::string& kept = texts_.emplace_back(std::move(text));
  table.insert(kept, static_cast<TokenId>(id));
  if (id >= size()) bytes_.resize(static_cast<size_t>(id) + 1);
  bytes_[static_cast<size_t>(id)] = kept;
  return {};
}

// Names first: they are what a user means by "<|eot_id|>".
std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  if (const auto id = names_.find(text)) return id;
  const std::optional<std::string> word = bytes_of_spelling(text);
  return word ? words_.find(*word) : std::nullopt;
}

}  // namespace neuronmm::text
