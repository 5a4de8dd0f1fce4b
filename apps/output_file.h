#pragma once
// A file that a command opens when it starts and writes when it ends. A path that cannot be written
// is therefore an error before any work is done. The path "-" means standard output.

#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/atomic_file.h"
#include "process.h"

namespace neuronmm::apps {

// The output of a flag such as --json or --html, or no output if the flag was not given.
class OutputFile {
 public:
  // Opens the file. With an empty path there is no file, and write() does nothing.
  static Result<OutputFile> open(const std::string& path) {
    OutputFile output;
    output.to_stdout_ = path == "-";
    if (path.empty() || output.to_stdout_) return output;
    NMM_ASSIGN(output.file_, io::AtomicFile::create(path));
    return output;
  }
  // Writes the whole content and closes the file. Call it once. Throws ClosedPipe if the file is a
  // pipe whose reader has ended, as in `--json /dev/stdout | head -1`.
  Status write(std::string_view text) {
    // run_guarded() (process.h) reports a failure to write to standard output.
    if (to_stdout_) std::fwrite(text.data(), 1, text.size(), stdout);
    if (!file_) return {};
    std::fflush(stdout);  // the path may name the same file as standard output
    const Status appended = file_->append(std::as_bytes(std::span(text)));
    if (file_->lost_its_reader()) throw ClosedPipe();
    NMM_TRY(appended);
    return file_->finish();
  }
  // Returns whether there is a file or standard output to write to.
  bool wanted() const { return to_stdout_ || file_.has_value(); }
  // Returns whether the content goes to standard output, which then may hold nothing else.
  bool to_stdout() const { return to_stdout_; }

 private:
  std::optional<io::AtomicFile> file_;
  bool to_stdout_ = false;
};

}  // namespace neuronmm::apps
