#pragma once
// A file that a command writes at its end, opened at its begin: a path that cannot be written is an
// error before any work is done.

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
    if (path.empty()) return output;
    NMM_ASSIGN(output.file_, io::AtomicFile::create(path));
    return output;
  }
  Status write(std::string_view text) {
    if (!file_) return {};
    NMM_TRY(file_->append(std::as_bytes(std::span(text))));
    return file_->finish();
  }
  bool wanted() const { return file_.has_value(); }

 private:
  std::optional<io::AtomicFile> file_;
};

}  // namespace neuronmm::apps
