#include "command_text.h"

#include <string_view>

#include <fmt/format.h>

namespace neuronmm::apps {
namespace {

constexpr std::string_view kHidden = "***";

// Returns whether an option of this name holds something that nobody else may know.
bool is_secret(std::string_view option) {
  if (!option.starts_with("--")) return false;
  const auto has = [&](std::string_view word) {
    return option.find(word) != std::string_view::npos;
  };
  return has("key") || has("password") || has("secret") || option.ends_with("token") ||
         option.ends_with("auth");
}

// Returns the text with the name and password of a URL replaced.
std::string without_credentials(std::string text) {
  const size_t scheme = text.find("://");
  if (scheme == std::string::npos) return text;
  const size_t begin = scheme + 3, at = text.find('@', begin);
  if (at == std::string::npos || text.find('/', begin) < at) return text;
  return text.replace(begin, at - begin, kHidden);
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-*";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string command_text(const std::vector<std::string>& arguments) {
  std::string text = "neuronmm";
  bool secret = false;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    const std::string_view name = std::string_view(argument).substr(0, equals);
    std::string shown = without_credentials(argument);
    if (secret) {
      shown = kHidden;
    } else if (is_secret(name) && equals != std::string::npos) {
      shown = fmt::format("{}={}", name, kHidden);
    }
    secret = !secret && is_secret(argument) && equals == std::string::npos;
    text += " " + shell_word(shown);
  }
  return text;
}

}  // namespace neuronmm::apps
