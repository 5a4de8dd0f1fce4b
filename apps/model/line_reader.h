#pragma once
// Reads the lines of a chat from a terminal or a pipe. On a terminal, libedit lets the user edit
// the line and get earlier lines back with the arrow keys. The line editing of the terminal itself
// would cut lines at 4,096 bytes.

#include <memory>
#include <optional>
#include <string>

namespace neuronmm::apps {

// Reads lines from standard input.
class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Returns whether standard input and standard error are terminals.
  bool on_terminal() const { return editor_ != nullptr; }
  // Returns the next line without its newline. `prompt` is shown on standard error, and only on a
  // terminal. There is no value at the end of the input or after a signal; interrupted() tells
  // which.
  std::optional<std::string> read(const std::string& prompt);

 private:
  class Editor;
  std::unique_ptr<Editor> editor_;
};

}  // namespace neuronmm::apps
