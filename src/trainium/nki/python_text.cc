#include "trainium/nki/python_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace neuronmm::nki {

namespace {
// As wide as this project's own sources.
constexpr size_t kWidth = 100;
}  // namespace

// A comment stands behind the text if the line stays within the width, else on a line before it.
void PythonText::line(std::string_view text, std::string_view comment) {
  const bool behind = depth_ + text.size() + comment.size() + 4 <= kWidth;
  if (!comment.empty() && !behind) line(fmt::format("# {}", comment));
  if (!text.empty()) text_.append(depth_, ' ').append(text);
  if (!comment.empty() && behind) text_.append("  # ").append(comment);
  text_ += '\n';
}

// On one line if it fits, else one argument per line with a comma behind the last one, as Python's
// formatters do it.
void PythonText::call(const std::string& function, const std::vector<std::string>& arguments) {
  const std::string one_line = fmt::format("{}({})", function, fmt::join(arguments, ", "));
  if (depth_ + one_line.size() <= kWidth) return line(one_line);
  line(function + "(");
  indent();
  for (const std::string& argument : arguments) line(argument + ",");
  dedent();
  line(")");
}

// Breaks at spaces only: a word that is wider than the line stays whole.
void PythonText::paragraph(std::string_view text) {
  std::string current;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    if (!current.empty() && depth_ + current.size() + 1 + space > kWidth) {
      line(current);
      current.clear();
    }
    current += fmt::format("{}{}", current.empty() ? "" : " ", text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  if (!current.empty()) line(current);
}

}  // namespace neuronmm::nki
