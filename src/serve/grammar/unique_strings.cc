#include "serve/grammar/unique_strings.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fnv1a.h"

namespace neuronmm::grammar {
namespace {

constexpr std::string_view kBrackets = "[]{}";
constexpr int kShortEscape = 2, kCodeUnit = 6, kTwoCodeUnits = 12;  // lengths in bytes

}  // namespace

void UniqueStrings::StringReader::add(char c, std::string& text) {
  hash = fnv1a(c, hash);
  text += c;
}

bool UniqueStrings::StringReader::read(char c, std::string& text) {
  if (!is_open) {
    is_open = c == '"';
    if (!is_open) return false;
    hash = kFnvOffsetBasis;
    text.clear();
    return false;
  }
  if (escape_length > 0 || c == '\\') {
    escape[escape_length++] = c;
    end_escape(text);
    return false;
  }
  is_open = c != '"';
  if (is_open) add(c, text);
  return !is_open;
}

// Appends the character of an escape that is complete. The grammar allows no others than those of
// JSON, and the first half of a surrogate pair only before the second.
void UniqueStrings::StringReader::end_escape(std::string& text) {
  const bool is_unicode = escape_length > 1 && escape[1] == 'u';
  if (escape_length < (is_unicode ? kCodeUnit : kShortEscape)) return;
  const std::string_view written(escape, static_cast<size_t>(escape_length));
  const bool is_first_half = is_unicode && (written[2] | 0x20) == 'd' &&
                             std::string_view("89abAB").find(written[3]) != std::string_view::npos;
  if (is_first_half && escape_length < kTwoCodeUnits) return;
  const auto value = nlohmann::json::parse(fmt::format("\"{}\"", written), nullptr, false);
  const std::string read = value.is_string() ? value.get<std::string>() : std::string(written);
  for (const char c : read) add(c, text);
  escape_length = 0;
}

bool UniqueStrings::Container::contains(uint64_t hash, std::string_view begin,
                                        std::string_view end) const {
  const auto [first, last] = strings.equal_range(hash);
  return std::any_of(first, last, [&](const auto& entry) {
    const std::string_view text = entry.second;
    return text.size() == begin.size() + end.size() && text.starts_with(begin) &&
           text.ends_with(end);
  });
}

void UniqueStrings::push(std::string_view text) {
  for (const char c : text) {
    const bool outside = !reader_.is_open;
    if (reader_.read(c, text_) && !containers_.empty() && containers_.back().is_array)
      containers_.back().strings.emplace(reader_.hash, text_);
    if (!outside) continue;
    if (c == '[' || c == '{') containers_.push_back({c == '[', {}});
    if ((c == ']' || c == '}') && !containers_.empty()) containers_.pop_back();
  }
}

bool UniqueStrings::would_repeat(std::string_view more,
                                 const IsMarkedUnique& is_marked_unique) const {
  StringReader reader = reader_;
  std::string_view before = text_;  // what `more` continues
  std::string added;
  // Whether the next string is in the innermost open array and no string of `more` precedes it.
  bool is_known = !containers_.empty();
  for (size_t i = 0; i < more.size(); ++i) {
    const bool outside = !reader.is_open;
    if (reader.read(more[i], added) && is_marked_unique(i)) {
      if (!is_known || containers_.back().contains(reader.hash, before, added)) return true;
      is_known = false;
    }
    if (outside && reader.is_open) before = {};
    if (outside && kBrackets.find(more[i]) != std::string_view::npos) is_known = false;
  }
  return false;
}

}  // namespace neuronmm::grammar
