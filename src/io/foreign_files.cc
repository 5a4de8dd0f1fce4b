#include "io/foreign_files.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <span>
#include <system_error>

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/adapter_config.h"
#include "io/adapter_file.h"
#include "io/atomic_file.h"
#include "io/shards.h"
#include "io/text_file.h"
#include "io/transformers_config.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

// A message names at most this many files.
constexpr size_t kNamesInMessage = 5;

// Names on the Hugging Face Hub of the files that describe a model, its tokenizer and its folder.
constexpr std::string_view kNames[] = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "vocab.bpe",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
    "chat_template.json",
    "chat_template.jinja",
    "preprocessor_config.json",
    "processor_config.json",
    "quantize_config.json",
    "quantization_config.json",
    "configuration.json",
    "params.json",
    kAdapterConfigName,
    kAdapterFileName,
    "README.md",
    ".gitattributes",
    kSingleFileName,
    kIndexFileName,
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
};

constexpr std::string_view kLicences[] = {"LICENSE", "LICENCE", "NOTICE",
                                          "Notice",  "COPYING", "USE_POLICY"};

// Returns whether the name is `stem`, alone or with the ending of a text.
bool is_text_named(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem)) return false;
  name.remove_prefix(stem.size());
  return name.empty() || name == ".txt" || name == ".md";
}

// Returns whether the name is that of a part of the weights: "STEM-00001-of-00002ENDING".
bool is_shard(std::string_view name, std::string_view stem, std::string_view ending) {
  constexpr std::string_view kNumbers = "-00000-of-00000";
  if (name.size() != stem.size() + kNumbers.size() + ending.size()) return false;
  if (!name.starts_with(stem) || !name.ends_with(ending)) return false;
  const std::string_view numbers = name.substr(stem.size(), kNumbers.size());
  return std::ranges::equal(numbers, kNumbers, [](char found, char expected) {
    const bool digit = std::isdigit(static_cast<unsigned char>(found)) != 0;
    return expected == '0' ? digit : found == expected;
  });
}

// Returns whether the two are regular files of the same bytes. Larger files than those that
// copy_model_files() copies are never the same.
bool same_regular_files(const fs::path& a, const fs::path& b) {
  struct stat of_a {};
  struct stat of_b {};
  if (lstat(a.c_str(), &of_a) != 0 || stat(b.c_str(), &of_b) != 0) return false;
  if (!S_ISREG(of_a.st_mode) || !S_ISREG(of_b.st_mode) || of_a.st_size != of_b.st_size) {
    return false;
  }
  const auto bytes_of_a = read_text_file(a, kMaxTokenizerBytes);
  const auto bytes_of_b = read_text_file(b, kMaxTokenizerBytes);
  return bytes_of_a.ok() && bytes_of_b.ok() && *bytes_of_a == *bytes_of_b;
}

// A link belongs to a model by its name, because deleting it leaves its target alone.
bool belongs_to_model(const fs::path& file, const fs::path& origin) {
  struct stat status {};
  if (lstat(file.c_str(), &status) != 0) return false;
  const std::string name = file.filename().string();
  const bool leaf = S_ISREG(status.st_mode) || S_ISLNK(status.st_mode);
  if (leaf && is_model_file_name(name)) return true;
  return !origin.empty() && same_regular_files(file, origin / name);
}

std::string shown_name(const fs::path& file) {
  std::error_code ignored;
  const bool folder = fs::is_directory(fs::symlink_status(file, ignored));
  return file.filename().string() + (folder ? "/" : "");
}

Result<std::vector<fs::path>> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  if (error) return fail("{}: cannot be read: {}", folder.string(), error.message());
  std::ranges::sort(entries);
  return entries;
}

std::string list_of(const std::vector<std::string>& names) {
  const auto shown = std::span(names).first(std::min(names.size(), kNamesInMessage));
  const size_t more = names.size() - shown.size();
  const std::string list = fmt::format("{}", fmt::join(shown, ", "));
  return more == 0 ? list : fmt::format("{} and {} more", list, more);
}

Error cannot_delete(const fs::path& path, int code) {
  return fail("{}: cannot be deleted: {}", path.string(), std::generic_category().message(code));
}

}  // namespace

bool is_model_file_name(std::string_view name) {
  if (std::ranges::find(kNames, name) != std::end(kNames)) return true;
  for (const char* const module : {kConfigurationModule, kModelingModule, kMlpModule}) {
    if (name == std::string(module) + ".py") return true;
  }
  for (const std::string_view licence : kLicences) {
    if (is_text_named(name, licence)) return true;
  }
  return is_shard(name, "model", ".safetensors") || is_shard(name, "pytorch_model", ".bin") ||
         name.ends_with(".tiktoken") || is_temporary_name(name);
}

Result<std::vector<std::string>> foreign_files(const fs::path& folder, const fs::path& origin) {
  NMM_ASSIGN(const std::vector<fs::path> entries, entries_of(folder));
  std::vector<std::string> names;
  for (const fs::path& entry : entries) {
    if (!belongs_to_model(entry, origin)) names.push_back(shown_name(entry));
  }
  return names;
}

Error not_replaced(const fs::path& folder, const std::string& found) {
  return fail(
      "{}: is not replaced: it also holds {}, which does not belong to a model; move that away, or "
      "name another output folder",
      folder.string(), found);
}

Status require_model_files_only(const fs::path& folder, const fs::path& origin,
                                const fs::path& name) {
  NMM_ASSIGN(const auto names, foreign_files(folder, origin));
  if (names.empty()) return {};
  return not_replaced(name, list_of(names));
}

Status remove_model_folder(const fs::path& folder, const fs::path& origin) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  if (status.type() == fs::file_type::not_found) return {};
  NMM_ASSIGN(const auto entries, entries_of(folder));
  for (const fs::path& entry : entries) {
    if (!belongs_to_model(entry, origin)) continue;
    if (unlink(entry.c_str()) != 0 && errno != ENOENT) return cannot_delete(entry, errno);
  }
  if (rmdir(folder.c_str()) == 0 || errno == ENOENT) return {};
  const int code = errno;
  if (code != ENOTEMPTY && code != EEXIST) return cannot_delete(folder, code);
  NMM_ASSIGN(const auto left, foreign_files(folder, {}));
  return fail("{}: is not deleted: it holds {}, which does not belong to a model; move that away",
              folder.string(), list_of(left));
}

}  // namespace neuronmm::io
