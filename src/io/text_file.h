#pragma once
// Whole texts from and to files. What is read is a regular file of a bounded size, so that a pipe
// or a device in a file's place neither hangs nor fills the memory.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::io {

// What each kind of file may hold at most: some ten times the largest published one that we know.
// Parsed JSON takes up to 20 times its text's memory.
inline constexpr int64_t kMaxConfigBytes = int64_t{8} << 20;       // the largest: 0.2 MB
inline constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;       // DeepSeek-V3: 9 MB
inline constexpr int64_t kMaxTokenizerBytes = int64_t{128} << 20;  // Gemma 3: 33 MB
inline constexpr int64_t kMaxTextBytes = int64_t{4} << 30;         // to read, evaluate or train on

// Writes `text` to `path` as AtomicFile does.
Status write_text_file(const std::filesystem::path& path, std::string_view text);
// Errors: absent, unreadable, not a regular file, larger than max_bytes.
Result<std::string> read_text_file(const std::filesystem::path& path, int64_t max_bytes);
// A text of the user's own: also from a pipe or, as "-", from standard input.
Result<std::string> read_user_text(const std::string& path_or_dash);
// The same for a text to calibrate on or to measure with, which check_corpus takes.
Result<std::string> read_corpus(const std::string& path_or_dash);
// An error if it is not UTF-8 or has a NUL byte, as UTF-16 and files that are no texts have:
// tokenizers take any bytes, and a model would be fitted to them without a word. A last character
// may be cut off.
Status check_corpus(std::string_view text, const std::string& source);

}  // namespace neuronmm::io
