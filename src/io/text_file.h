#pragma once
// Reads and writes whole texts. A file that is read must be regular and of a limited size, so that
// a pipe or a device in its place neither hangs nor fills the memory.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::io {

// The largest sizes of files, about ten times those of the largest published ones. Parsed JSON
// takes up to 20 times the memory of its text.
// The largest known file has 0.2 MB.
inline constexpr int64_t kMaxConfigBytes = int64_t{8} << 20;
// The largest known file is DeepSeek-V3's, with 9 MB.
inline constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;
// The largest known file is Gemma 3's, with 33 MB.
inline constexpr int64_t kMaxTokenizerBytes = int64_t{128} << 20;
// The limit for texts to read, evaluate or train on.
inline constexpr int64_t kMaxTextBytes = int64_t{4} << 30;

// Returns whether there is something at the path, after links. Texts of mounted models count
// (io/mounted_model.h). Fails if the system cannot tell, because a file that is taken for missing
// would silently be left out.
Result<bool> is_there(const std::filesystem::path& path);
// Writes `text` to `path` through an AtomicFile.
Status write_text_file(const std::filesystem::path& path, std::string_view text);
// Reads a file, or a text of a mounted model (io/mounted_model.h). Fails if the file is missing,
// unreadable, not regular or larger than max_bytes.
Result<std::string> read_text_file(const std::filesystem::path& path, int64_t max_bytes);
// Reads a text of the user. The text may come from a pipe or, as "-", from standard input.
Result<std::string> read_user_text(const std::string& path_or_dash);
// Reads a text to calibrate on or to measure with, and checks it with check_corpus().
Result<std::string> read_corpus(const std::string& path_or_dash);
// Fails if the text is not UTF-8 or has a NUL byte, as UTF-16 and files that are no texts have.
// Tokenizers accept any bytes, so a model would be fitted to them without a warning. A last
// character may be incomplete.
Status check_corpus(std::string_view text, const std::string& source);

}  // namespace neuronmm::io
