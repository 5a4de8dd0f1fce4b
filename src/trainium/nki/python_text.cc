#include "trainium/nki/python_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace neuronmm::nki {

namespace {
// The width of a line, equal to that of this project's own sources.
constexpr size_t kWidth = 100;
}  // namespace

// The comment follows the text if the line then fits into the width. Otherwise it goes on a line
// before the text.
void PythonText::line(std::string_view text, std::string_view comment) {
  const bool behind = depth_ + text.size() + comment.size() + 4 <= kWidth;
  if (!comment.empty() && !behind) line(fmt::format("# {}", comment));
  if (!text.empty()) text_.append(depth_, ' ').append(text);
  if (!comment.empty() && behind) text_.append("  # ").append(comment);
  text_ += '\n';
}

// A call that does not fit on one line gets one argument per line, with a comma after the last one,
// as Python's formatters write it.
void PythonText::call(const std::string& function, const std::vector<std::string>& arguments) {
  const std::string one_line = fmt::format("{}({})", function, fmt::join(arguments, ", "));
  if (depth_ + one_line.size() <= kWidth) return line(one_line);
  line(function + "(");
  indent();
  for (const std::string& argument : arguments) line(argument + ",");
  dedent();
  line(")");
}

// The text breaks only at spaces. A word that is wider than the line stays whole.
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
