#include "serve/grammar/unique_strings.h"

#include <nlohmann/json.hpp>

namespace neuronmm::grammar {
namespace {

constexpr std::string_view kBrackets = "[]{}";

// Returns the value of a string, which can be written with different escapes.
std::string meaning(const std::string& written) {
  if (written.find('\\') == std::string::npos) return written;
  const auto value = nlohmann::json::parse('"' + written + '"', nullptr, false);
  return value.is_string() ? value.get<std::string>() : written;
}

}  // namespace

bool UniqueStrings::OpenString::read(char c) {
  if (!is_open) {
    is_open = c == '"';
    if (is_open) text.clear();
    return false;
  }
  if (c == '"' && !escaped) {
    is_open = false;
    return true;
  }
  escaped = c == '\\' && !escaped;
  text += c;
  return false;
}

void UniqueStrings::push(std::string_view text) {
  for (const char c : text) {
    const bool outside = !string_.is_open;
    if (string_.read(c) && !containers_.empty() && containers_.back().is_array)
      containers_.back().strings.insert(meaning(string_.text));
    if (!outside) continue;
    if (c == '[' || c == '{') containers_.push_back({c == '[', {}});
    if ((c == ']' || c == '}') && !containers_.empty()) containers_.pop_back();
  }
}

bool UniqueStrings::would_repeat(std::string_view more,
                                 const IsMarkedUnique& is_marked_unique) const {
  OpenString string = string_;
  // Whether the next string is in the innermost open array and no string of `more` precedes it.
  bool is_known = !containers_.empty();
  for (size_t i = 0; i < more.size(); ++i) {
    const bool outside = !string.is_open;
    if (string.read(more[i]) && is_marked_unique(i)) {
      if (!is_known || containers_.back().strings.contains(meaning(string.text))) return true;
      is_known = false;
    }
    if (outside && kBrackets.find(more[i]) != std::string_view::npos) is_known = false;
  }
  return false;
}

}  // namespace neuronmm::grammar
