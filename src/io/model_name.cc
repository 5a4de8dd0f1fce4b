#include "io/model_name.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "io/gguf.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSnapshots = "snapshots", kMainRevision = "main";
// Assumed: longer than any revision, which has 40 digits.
constexpr std::streamsize kMaxRevisionBytes = 256;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

fs::path home_expanded(const std::string& path) {
  return path.starts_with("~/") ? fs::path(environment("HOME")) / path.substr(2) : fs::path(path);
}

fs::path hub_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string hub = environment(name); !hub.empty()) return home_expanded(hub);
  }
  if (const std::string home = environment("HF_HOME"); !home.empty())
    return home_expanded(home) / "hub";
  const std::string cache = environment("XDG_CACHE_HOME");
  return home_expanded(cache.empty() ? "~/.cache" : cache) / "huggingface" / "hub";
}

// A name in the cache: ORG/NAME, and the file or the tag after it.
struct CachedName {
  std::string organization, model, file, tag;
  std::string repository() const { return organization + "/" + model; }
};

// Hugging Face allows letters, digits, '.', '-' and '_' in names.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  });
}

std::optional<CachedName> parse_name(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return std::nullopt;
  CachedName parsed = {.organization = name.substr(0, slash),
                       .model = name.substr(slash + 1),
                       .file = {},
                       .tag = {}};
  if (const size_t second = parsed.model.find('/'); second != std::string::npos) {
    parsed.file = parsed.model.substr(second + 1);
    parsed.model.resize(second);
    if (!parsed.file.ends_with(".gguf") || parsed.file.find("..") != std::string::npos)
      return std::nullopt;
  } else if (const size_t colon = parsed.model.find(':'); colon != std::string::npos) {
    parsed.tag = parsed.model.substr(colon + 1);
    parsed.model.resize(colon);
    if (parsed.tag.empty()) return std::nullopt;
  }
  if (!is_plain_name(parsed.organization) || !is_plain_name(parsed.model)) return std::nullopt;
  return parsed;
}

fs::path cached_repository(const CachedName& name) {
  return hub_folder() / fmt::format("models--{}--{}", name.organization, name.model);
}

// Returns the folder of the revision that refs/main names, or an empty path. If there is no such
// file, as after a download of one revision, the only snapshot is taken.
fs::path snapshot_of(const fs::path& repository) {
  std::string revision(static_cast<size_t>(kMaxRevisionBytes), '\0');
  std::ifstream ref(repository / "refs" / kMainRevision, std::ios::binary);
  ref.read(revision.data(), kMaxRevisionBytes);
  revision.resize(static_cast<size_t>(std::max<std::streamsize>(ref.gcount(), 0)));
  while (!revision.empty() && std::isspace(static_cast<unsigned char>(revision.back())) != 0)
    revision.pop_back();
  std::error_code error;
  if (is_plain_name(revision) && fs::is_directory(repository / kSnapshots / revision, error))
    return repository / kSnapshots / revision;
  fs::path only;
  for (fs::directory_iterator entry(repository / kSnapshots, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!only.empty()) return {};
    only = entry->path();
  }
  return error ? fs::path() : only;
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

// Returns the folder's GGUF model if it has no other form of a model, and the folder otherwise.
fs::path model_in(const fs::path& folder, const std::string& tag = {}) {
  std::error_code ignored;
  if (tag.empty() && fs::exists(folder / "config.json", ignored)) return folder;
  std::vector<std::string> files = gguf_models_in(folder);
  if (!tag.empty())
    std::erase_if(files,
                  [&](const std::string& file) { return !contains_ignoring_case(file, tag); });
  return files.size() == 1 ? folder / files.front() : folder;
}

// Returns the number of a part of a split model, or 0 for other files.
int part_number(std::string_view file) {
  constexpr std::string_view kForm = "-00001-of-00002.gguf";
  if (file.size() < kForm.size()) return 0;
  const std::string_view end = file.substr(file.size() - kForm.size());
  int number = 0;
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(kForm[i])) != 0;
    if (digit != (std::isdigit(static_cast<unsigned char>(end[i])) != 0)) return 0;
    if (!digit && end[i] != kForm[i]) return 0;
    if (i >= 1 && i <= 5) number = number * 10 + (end[i] - '0');
  }
  return number;
}

}  // namespace

std::vector<std::string> gguf_models_in(const fs::path& folder) {
  std::vector<std::string> files = gguf_files_in(folder);
  std::erase_if(files, [](const std::string& file) {
    return part_number(file) > 1 || contains_ignoring_case(file, "mmproj");
  });
  return files;
}

fs::path find_model(const std::string& name) {
  std::error_code ignored;
  const fs::file_type type = fs::status(name, ignored).type();
  if (type == fs::file_type::directory) return model_in(name);
  if (type != fs::file_type::not_found) return name;
  const auto cached = parse_name(name);
  if (!cached) return name;
  const fs::path snapshot = snapshot_of(cached_repository(*cached));
  if (snapshot.empty()) return name;
  if (cached->file.empty()) return model_in(snapshot, cached->tag);
  return fs::exists(snapshot / cached->file, ignored) ? snapshot / cached->file : fs::path(name);
}

bool may_be_model(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) || is_gguf(path);
}

std::string missing_model_hint(const std::string& name) {
  const auto cached = parse_name(name);
  if (!cached) return {};
  const fs::path snapshot = snapshot_of(cached_repository(*cached));
  const std::string file = cached->file.empty() ? "" : " " + cached->file;
  const std::string lacks = snapshot.empty()
                                ? fmt::format("the Hugging Face cache {} has no model of this name",
                                              hub_folder().string())
                                : fmt::format("{} does not have the file", snapshot.string());
  return fmt::format(", and {}; download it with: hf download {}{}", lacks, cached->repository(),
                     file);
}

}  // namespace neuronmm::io
