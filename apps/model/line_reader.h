#pragma once
// Lines that a person types or a pipe brings. On a terminal they can be edited, and earlier ones
// come back with the arrow keys (libedit); a terminal's own line editing ends at 4,096 bytes.

#include <memory>
#include <optional>
#include <string>

namespace neuronmm::apps {

class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  bool on_terminal() const { return editor_ != nullptr; }
  // The next line without its end. `prompt` is shown on standard error, on terminals only. Nothing
  // at the end of input, and at once when a signal comes: interrupted() tells which.
  std::optional<std::string> read(const std::string& prompt);

 private:
  class Editor;
  std::unique_ptr<Editor> editor_;
};

}  // namespace neuronmm::apps
