#include "model/draft_check.h"

#include <algorithm>
#include <limits>

#include "base/printable.h"

namespace neuronmm::model {

Status check_same_tokens(const text::Tokenizer& model, const std::filesystem::path& model_folder,
                         const text::Tokenizer& draft, const std::filesystem::path& draft_folder) {
  const int64_t tokens = std::max(model.vocab_size(), draft.vocab_size());
  for (int64_t id = 0; id < tokens; ++id) {
    const auto token = static_cast<text::TokenId>(id);
    const std::string expected = id < model.vocab_size() ? model.token_bytes(token) : "";
    const std::string found = id < draft.vocab_size() ? draft.token_bytes(token) : "";
    if (expected == found) continue;
    return fail(
        "{}: expected the tokens of {}, which has {} tokens: token {} is \"{}\" there, and \"{}\" "
        "of {} here; a draft comes from the same model or its family",
        draft_folder.string(), model_folder.string(), model.vocab_size(), id, printable(expected),
        printable(found), draft.vocab_size());
  }
  return {};
}

Status check_not_larger(const io::Checkpoint& model, const io::Checkpoint& draft) {
  if (draft.size_bytes() <= model.size_bytes()) return {};
  return fail(
      "{}: expected a draft with at most the {} bytes of {}, found {}: a larger draft only makes "
      "texts slower; choose a smaller model, or one with fewer bits",
      draft.folder().string(), model.size_bytes(), model.folder().string(), draft.size_bytes());
}

Status check_one_rope_table(const io::ModelConfig& draft,
                            const std::filesystem::path& draft_folder) {
  if (draft.long_rope_from() == std::numeric_limits<int64_t>::max()) return {};
  return fail(
      "{}: expected a draft with one RoPE table, found longrope with another long_factor for texts "
      "of more than {} tokens; choose another draft, or ngram",
      draft_folder.string(), draft.long_rope_from());
}

}  // namespace neuronmm::model
