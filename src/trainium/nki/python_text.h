#pragma once
// Lines of Python: indented, broken where they are too long.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::nki {

class PythonText {
 public:
  // The comment behind the text, or above it where that is too long.
  void line(std::string_view text = "", std::string_view comment = "");
  // A call on one line, or one argument per line where that is too long.
  void call(const std::string& function, const std::vector<std::string>& arguments);
  // `text` broken between words.
  void paragraph(std::string_view text);
  // Appends lines that are indented already.
  void append(std::string_view lines) { text_ += lines; }

  void indent() { depth_ += 4; }
  void dedent() { depth_ -= 4; }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  size_t depth_ = 0;
};

}  // namespace neuronmm::nki
