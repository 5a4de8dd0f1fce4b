#include "exports/written_files.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include <boost/crc.hpp>

#include "io/text_file.h"

namespace neuronmm::exports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Result<std::vector<fs::path>> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_regular_file(error)) files.push_back(entry->path());
  }
  if (error) return fail("{}: cannot be read: {}", folder.string(), error.message());
  std::ranges::sort(files);
  return files;
}

// Returns the same checksum as zlib's crc32 and Python's zlib.crc32.
uint32_t crc32(const std::string& text) {
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  return crc.checksum();
}

Result<Json> entry_of(const fs::path& file) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(file, error);
  if (error) return fail("{}: cannot be read: {}", file.string(), error.message());
  Json entry = {{"bytes", bytes}};
  if (file.extension() == ".safetensors") return entry;
  NMM_ASSIGN(const std::string text, io::read_text_file(file, io::kMaxTokenizerBytes));
  entry["crc32"] = crc32(text);
  return entry;
}

}  // namespace

Result<Json> written_files(const fs::path& folder) {
  NMM_ASSIGN(const std::vector<fs::path> files, files_below(folder));
  Json list = Json::object();
  for (const fs::path& file : files) {
    NMM_ASSIGN(list[file.lexically_relative(folder).string()], entry_of(file));
  }
  return list;
}

}  // namespace neuronmm::exports
