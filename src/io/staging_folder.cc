#include "io/staging_folder.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/atomic_file.h"
#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kMarkerKey = "neuronmm";
constexpr const char* kMarkerValue = "unfinished output";

Error cannot(const char* verb, const fs::path& path, int code) {
  return fail("{}: cannot be {}: {}", path.string(), verb, std::generic_category().message(code));
}

// Returns "process 4711 (neuronmm compress A -o B)", or less if the system does not tell the
// command.
std::string process_name(int64_t pid) {
  const auto command = read_text_file(fmt::format("/proc/{}/cmdline", pid), kMaxConfigBytes);
  if (!command.ok() || command->empty()) return fmt::format("process {}", pid);
  std::string words = *command;
  for (char& c : words) c = c == '\0' ? ' ' : c;
  while (words.ends_with(' ')) words.pop_back();
  return fmt::format("process {} ({})", pid, words);
}

// The error names the process, so that the user knows what to wait for.
Error in_use_error(const fs::path& path) {
  const auto marker = read_json_object(path / "neuronmm.json", kMaxConfigBytes);
  const bool named = marker.ok() && marker->contains("pid") && marker->at("pid").is_number();
  return fail("{}: is in use: {} is making this output; wait for it or stop it", path.string(),
              named ? process_name(marker->at("pid").get<int64_t>()) : "another process");
}

// Locks the open folder. Returns false if the path leads to another folder, and the caller tries
// again.
Result<bool> lock(int descriptor, const fs::path& path) {
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return in_use_error(path);
  }
  struct stat opened = {};
  struct stat named = {};
  if (fstat(descriptor, &opened) != 0) return cannot("read", path, errno);
  if (lstat(path.c_str(), &named) != 0) return false;
  return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

Status delete_all(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return cannot("deleted", path, error.value());
  return {};
}

}  // namespace

StagingFolder::StagingFolder(StagingFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}
StagingFolder& StagingFolder::operator=(StagingFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}
StagingFolder::~StagingFolder() {
  if (lock_ >= 0) close(lock_);
}

// Because of O_NOFOLLOW and the lock, the result is a folder that no other process holds and that
// still has this name.
Result<std::optional<StagingFolder>> StagingFolder::find(const fs::path& path) {
  while (true) {
    const int descriptor =
        ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0 && errno == ENOENT) return std::optional<StagingFolder>();
    if (descriptor < 0 && (errno == ENOTDIR || errno == ELOOP)) {
      return fail("{}: expected a folder of an interrupted run, found a file or a link",
                  path.string());
    }
    if (descriptor < 0) return cannot("read", path, errno);
    StagingFolder folder(path, descriptor);
    NMM_ASSIGN(const bool locked, lock(descriptor, path));
    if (!locked) continue;
    NMM_ASSIGN(const bool ours, folder.belongs_to_this_program());
    if (ours) return std::optional(std::move(folder));
    return fail(
        "{}: expected nothing or this program's unfinished work, found other files; delete or "
        "rename it",
        path.string());
  }
}

// Another process may remove or lock the folder between the two steps. It is then made or found
// again.
Result<StagingFolder> StagingFolder::create(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) return cannot("created", path.parent_path(), error.value());
  while (true) {
    const bool made = mkdir(path.c_str(), 0777) == 0;
    if (!made && errno != EEXIST) return cannot("created", path, errno);
    auto folder = find(path);
    if (!folder.ok()) {
      if (made) rmdir(path.c_str());
      return folder.error();
    }
    if (*folder) return *std::move(*folder);
  }
}

Status StagingFolder::mark_in_use() const { return write_marker(std::nullopt); }

Status StagingFolder::mark_commit(const Inode& output) const { return write_marker(output); }

Status StagingFolder::write_marker(std::optional<Inode> commits) const {
  json content = {{kMarkerKey, kMarkerValue}, {"pid", getpid()}};
  if (commits) content["commits"] = {commits->device, commits->number};
  return write_text_file(marker(), content.dump() + "\n");
}

// The marker names what was to become the output by its inode, which stays when it is renamed.
bool StagingFolder::is_committed(const fs::path& out) const {
  const auto content = read_json_object(marker(), kMaxConfigBytes);
  const auto identity = inode_of(out);
  return content.ok() && identity && content->contains("commits") &&
         content->at("commits") == json({identity->device, identity->number});
}

// A run that was killed before its marker was complete leaves an empty folder, or one with a
// temporary file of the marker.
Result<bool> StagingFolder::belongs_to_this_program() const {
  const auto content = read_json_object(marker(), kMaxConfigBytes);
  if (content.ok() && content->contains(kMarkerKey) && content->at(kMarkerKey) == kMarkerValue) {
    return true;
  }
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!is_temporary_name(entry->path().filename().string())) return false;
  }
  if (error) return cannot("read", path_, error.value());
  return true;
}

Status StagingFolder::remove_model() const { return delete_all(model()); }

// The marker is removed last, before the folder itself. As long as anything else is left, the next
// run knows that the folder is ours.
Status StagingFolder::remove() const {
  for (const fs::path& part : {model(), replaced(), resume_folder()}) NMM_TRY(delete_all(part));
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_temporary_name(entry->path().filename().string())) NMM_TRY(delete_all(entry->path()));
  }
  if (error) return cannot("read", path_, error.value());
  NMM_TRY(delete_all(marker()));
  if (rmdir(path_.c_str()) == 0 || errno == ENOTEMPTY || errno == EEXIST) return {};
  return cannot("deleted", path_, errno);
}

}  // namespace neuronmm::io
