#pragma once
// A file that a command writes at its end, opened at its begin: a path that cannot be written is an
// error before any work is done. "-" is standard output.

#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/atomic_file.h"

namespace neuronmm::apps {

class OutputFile {
 public:
  // An empty path: no file, and write() does nothing.
  static Result<OutputFile> open(const std::string& path) {
    OutputFile output;
    output.to_stdout_ = path == "-";
    if (path.empty() || output.to_stdout_) return output;
    NMM_ASSIGN(output.file_, io::AtomicFile::create(path));
    return output;
  }
  Status write(std::string_view text) {
    if (to_stdout_) std::fwrite(text.data(), 1, text.size(), stdout);  // checked at the end
    if (!file_) return {};
    std::fflush(stdout);  // the path may lead there, too
    NMM_TRY(file_->append(std::as_bytes(std::span(text))));
    return file_->finish();
  }
  bool wanted() const { return to_stdout_ || file_.has_value(); }
  // Whether standard output is for the file's content alone.
  bool to_stdout() const { return to_stdout_; }

 private:
  std::optional<io::AtomicFile> file_;
  bool to_stdout_ = false;
};

}  // namespace neuronmm::apps
