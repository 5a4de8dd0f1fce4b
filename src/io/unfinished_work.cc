#include "io/unfinished_work.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "io/file_identity.h"
#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Longer values are not shown, because nobody finds the difference in them.
constexpr size_t kLongestValue = 60;

std::string both_values(const std::string& key, const json& before, const json& now) {
  const std::string there = before.dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string here = now.dump(-1, ' ', false, json::error_handler_t::replace);
  const bool shown = std::max(there.size(), here.size()) <= kLongestValue;
  return shown ? fmt::format("{} {} there, {} here", key, there, here)
               : fmt::format("another {}", key);
}

// Returns the first value that both objects have and that differs, or a value that only one has.
std::optional<std::string> difference_of(const json& before, const json& now) {
  std::optional<std::string> missing;
  for (const auto& [key, value] : now.items()) {
    if (!before.contains(key)) {
      if (!missing) missing = both_values(key, nullptr, value);
      continue;
    }
    const json& other = before.at(key);
    if (other == value) continue;
    if (!other.is_object() || !value.is_object()) return both_values(key, other, value);
    if (auto inner = difference_of(other, value)) return inner;
  }
  return missing;
}

// Returns the path of the first file in `value` whose identity is another one now.
std::optional<std::string> changed_file(const json& value) {
  if (value.is_object() && value.contains("path") && value.contains("inode")) {
    std::error_code ignored;
    if (!value.at("path").is_string()) return std::nullopt;
    const std::string path = value.at("path").get<std::string>();
    if (!fs::exists(path, ignored)) return std::nullopt;
    const auto now = file_identity(path);
    // A file of which nothing is known may be the old one, so that its work stays.
    if (!now.ok() || json(*now) == value) return std::nullopt;
    return path;
  }
  if (!value.is_structured()) return std::nullopt;
  for (const json& part : value) {
    if (auto changed = changed_file(part)) return changed;
  }
  return std::nullopt;
}

}  // namespace

bool has_unfinished_work(const fs::path& work) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(work, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory(error) || is_temporary_name(name)) continue;
    if (name != kWorkSettingsName) return true;
  }
  // A folder that cannot be read may hold work.
  return error && error != std::errc::no_such_file_or_directory;
}

std::optional<std::string> changed_input(const fs::path& work) {
  const auto settings = read_json_object(work / kWorkSettingsName, kMaxConfigBytes);
  return settings.ok() ? changed_file(*settings) : std::nullopt;
}

std::string settings_difference(const fs::path& work, const std::string& now) {
  const auto before = read_json_object(work / kWorkSettingsName, kMaxConfigBytes);
  if (!before.ok()) return "its settings cannot be read";
  const json object = json::parse(now, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return {};
  return difference_of(*before, object).value_or("it was made by another command");
}

Error other_work_error(const fs::path& work, const std::string& difference) {
  return Error{
      fmt::format("{}: holds unfinished work of a run with other settings{}{}{}; run that command "
                  "again to finish it, or give another output folder to keep both",
                  work.parent_path().string(), difference.empty() ? "" : " (", difference,
                  difference.empty() ? "" : ")"),
      Error::Kind::kExists};
}

}  // namespace neuronmm::io
