#include "io/model_files.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include "io/text_file.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

// Returns true for configs, tokenizers and licences. Weights of any format, hidden files and an
// index of the old shards do not belong to the new weights.
bool is_independent_of_weights(std::string_view name) {
  constexpr std::string_view kEndings[] = {".json", ".model", ".tiktoken", ".jinja"};
  constexpr std::string_view kBeginnings[] = {"LICENSE",    "LICENCE", "NOTICE",    "COPYING",
                                              "USE_POLICY", "vocab.",  "merges.txt"};
  if (name.starts_with('.') || name.ends_with(".index.json")) return false;
  return std::ranges::any_of(kEndings, [&](auto end) { return name.ends_with(end); }) ||
         std::ranges::any_of(kBeginnings, [&](auto begin) { return name.starts_with(begin); });
}

constexpr const char* kNameKey = "_name_or_path";

bool is_absolute_path(const std::string& name) {
  const bool drive = name.size() > 2 && name[1] == ':' && (name[2] == '\\' || name[2] == '/');
  return name.starts_with('/') || name.starts_with('~') || drive;
}

// Replaces absolute paths in the object and in the objects within it. Returns whether there were
// any.
bool replace_paths(nlohmann::ordered_json& object) {
  bool replaced = false;
  for (auto& [key, value] : object.items()) {
    if (value.is_object()) replaced |= replace_paths(value);
    if (key != kNameKey || !value.is_string()) continue;
    std::string name = value.get<std::string>();
    if (!is_absolute_path(name)) continue;
    while (name.ends_with('/') || name.ends_with('\\')) name.pop_back();
    value = name.substr(name.find_last_of("/\\") + 1);
    replaced = true;
  }
  return replaced;
}

}  // namespace

Result<std::vector<std::string>> copy_model_files(const fs::path& from, const fs::path& to) {
  std::vector<std::string> not_copied;
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(from, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_independent_of_weights(entry->path().filename().string()))
      files.push_back(entry->path());
  }
  if (error) return fail("{}: cannot be read: {}", from.string(), error.message());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    std::error_code ignored;
    // Files that this program has written itself, such as config.json, are not overwritten.
    if (fs::exists(to / file.filename(), ignored)) continue;
    if (!fs::is_regular_file(file, ignored)) {
      not_copied.push_back(
          fmt::format("{}: is not copied: it is not a regular file", file.string()));
      continue;
    }
    NMM_ASSIGN(const std::string content, read_text_file(file, kMaxTokenizerBytes));
    NMM_TRY(write_text_file(to / file.filename(), content));
  }
  return not_copied;
}

Result<std::string> read_public_config(const fs::path& config_json) {
  NMM_ASSIGN(std::string text, read_text_file(config_json, kMaxConfigBytes));
  // A text that is no JSON object is reported by those who parse it.
  auto config = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !replace_paths(config)) return text;
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return config.dump(2, ' ', false, kReplace) + "\n";
}

}  // namespace neuronmm::io
