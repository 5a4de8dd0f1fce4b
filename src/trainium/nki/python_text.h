#pragma once
// This file collects lines of Python for the emitter, indented and broken if they are too long.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::nki {

// Python source that grows line by line, at the current indentation.
class PythonText {
 public:
  // Adds a line. The comment follows the text, or stands above it if the line would be too long.
  void line(std::string_view text = "", std::string_view comment = "");
  // Adds a call on one line, or with one argument per line if it would be too long.
  void call(const std::string& function, const std::vector<std::string>& arguments);
  // Adds `text`, broken between words.
  void paragraph(std::string_view text);
  // Appends lines that are already indented.
  void append(std::string_view lines) { text_ += lines; }

  void indent() { depth_ += 4; }
  void dedent() { depth_ -= 4; }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  size_t depth_ = 0;
};

}  // namespace neuronmm::nki
