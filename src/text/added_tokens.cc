#include "text/added_tokens.h"

#include <algorithm>

#include <utf8proc.h>

#include "text/utf8.h"
#include "text/white_space.h"

namespace neuronmm::text {
namespace {

uint8_t byte_at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

// \w of the Rust regex library, but for a few hundred symbols that count as alphabetic.
bool is_word_character(std::optional<char32_t> code_point) {
  if (!code_point) return false;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(*code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const auto& a, const auto& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_) first_bytes_.set(byte_at(token.content, 0));
}

// Narrows the sorted tokens to those that agree with the text, one byte further each time. The
// shortest of them comes first.
const AddedToken* AddedTokenMatcher::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto first = tokens_.begin(), last = tokens_.end();
  for (size_t length = 0; first != last; ++length) {
    if (first->content.size() == length) longest = &*first++;
    if (length == text.size()) break;
    const uint8_t byte = byte_at(text, length);
    first = std::partition_point(
        first, last, [&](const AddedToken& t) { return byte_at(t.content, length) < byte; });
    last = std::partition_point(
        first, last, [&](const AddedToken& t) { return byte_at(t.content, length) <= byte; });
  }
  return longest;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::find(std::string_view text,
                                                                size_t from) const {
  if (tokens_.empty()) return {};
  for (size_t i = from; i < text.size(); ++i) {
    if (!first_bytes_.test(byte_at(text, i))) continue;
    const AddedToken* token = longest_at(text.substr(i));
    if (token == nullptr) continue;
    const std::string_view before = text.substr(from, i - from);
    const std::string_view after = text.substr(i + token->content.size());
    if (token->single_word && (is_word_character(last_character(text.substr(0, i))) ||
                               is_word_character(first_character(after)))) {
      i += token->content.size() - 1;
      continue;
    }
    Match match{i, i + token->content.size(), token->id};
    if (token->lstrip) match.begin = from + strip_right(before).size();
    if (token->rstrip) match.end = text.size() - strip_left(after).size();
    return match;
  }
  return {};
}

}  // namespace neuronmm::text
