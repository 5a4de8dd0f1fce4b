#include "io/folder_writer.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include <unistd.h>

#include "io/atomic_file.h"
#include "io/gguf.h"
#include "io/mapped_file.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

// `path` absolute and without links, dots or a slash at its end, whether or not it exists.
Result<fs::path> identity(const fs::path& path) {
  std::error_code error;
  fs::path canonical = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return fail("{}: cannot be resolved: {}", path.string(), error.message());
  if (!canonical.has_filename()) canonical = canonical.parent_path();
  return canonical;
}

// Whether `inner` is `outer` or lies inside it, by name or (hard links, bind mounts) by identity.
bool is_within(const fs::path& inner, const fs::path& outer) {
  std::error_code ignored;
  for (fs::path path = inner;; path = path.parent_path()) {
    if (path == outer || fs::equivalent(path, outer, ignored)) return true;
    if (path == path.parent_path()) return false;
  }
}

Status check_apart(const fs::path& out, const fs::path& input) {
  NMM_ASSIGN(const fs::path source, identity(input));
  if (is_within(out, source) || is_within(source, out))
    return fail("{}: the output must lie outside the input folder {}", out.string(),
                source.string());
  return {};
}

Status check_replaceable(const fs::path& out, FolderWriter::IfExists if_exists) {
  std::error_code error;
  const fs::file_status status = fs::status(out, error);
  if (status.type() == fs::file_type::not_found) return {};
  if (error) return fail("{}: cannot be read: {}", out.string(), error.message());
  if (!fs::is_directory(status))
    return fail("{}: expected an output folder, found a file", out.string());
  if (if_exists == FolderWriter::IfExists::kRefuse)
    return Error{out.string() + ": already exists", Error::Kind::kExists};
  // Replacing deletes what is there: never a folder that this program would not have written.
  if (!fs::is_empty(out, error) && !fs::exists(out / "config.json", error))
    return fail("{}: is not replaced: it has no config.json, so it is not a model folder",
                out.string());
  return {};
}

// Creates the staging folder, or clears the half-written files of the one that is there.
Status prepare_staging(const fs::path& staging) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(staging, error);
  if (fs::exists(status) && !fs::is_directory(status))
    return fail("{}: expected a folder of an interrupted run, found a file", staging.string());
  fs::create_directories(staging, error);
  if (error) return fail("{}: cannot be created: {}", staging.string(), error.message());
  const fs::path parent = staging.parent_path();
  if (access(parent.c_str(), W_OK) != 0)
    return fail("{}: cannot be written: {}", parent.string(),
                std::generic_category().message(errno));
  for (fs::directory_iterator entry(staging, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().string().ends_with(kTemporarySuffix)) fs::remove(entry->path(), ignored);
  }
  if (error) return fail("{}: cannot be read: {}", staging.string(), error.message());
  return {};
}

bool is_weights(const std::string& name) {
  constexpr std::string_view kEndings[] = {".safetensors", ".safetensors.index.json",
                                           ".bin",         ".bin.index.json",
                                           ".pt",          ".pth",
                                           ".gguf",        ".h5",
                                           ".msgpack",     ".onnx"};
  return std::ranges::any_of(kEndings, [&](std::string_view end) { return name.ends_with(end); });
}

// Pages and texts tell of the model that they came with. Licences bind what is made of it, too.
bool is_about_the_model(const std::string& name) {
  if (!name.ends_with(".md") && !name.ends_with(".txt")) return false;
  if (name == "merges.txt" || name == "vocab.txt") return false;  // a tokenizer's
  constexpr std::string_view kLegal[] = {"LICENSE", "LICENCE", "NOTICE", "COPYING", "USE_POLICY"};
  return std::ranges::none_of(kLegal,
                              [&](std::string_view start) { return name.starts_with(start); });
}

Status copy_durably(const fs::path& from, const fs::path& to) {
  NMM_ASSIGN(const auto source, MappedFile::open(from));
  NMM_ASSIGN(AtomicFile copy, AtomicFile::create(to));
  NMM_TRY(copy.append(source->bytes()));
  return copy.finish();
}

Error rename_error(const fs::path& from, const fs::path& to, const std::error_code& error) {
  return fail("{}: cannot be renamed to {}: {}", from.string(), to.string(), error.message());
}

}  // namespace

Status require_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found)
    return fail("{}: there is no such folder", folder.string());
  if (error) return fail("{}: cannot be read: {}", folder.string(), error.message());
  NMM_TRY(refuse_gguf(folder, "a model folder (config.json, *.safetensors, tokenizer.json)"));
  if (!fs::is_directory(status))
    return fail("{}: expected a model folder, found a file", folder.string());
  return {};
}

FolderWriter::FolderWriter(fs::path out, fs::path staging, IfExists if_exists)
    : out_(std::move(out)), staging_(std::move(staging)), if_exists_(if_exists) {}

Result<FolderWriter> FolderWriter::create(const fs::path& out, IfExists if_exists,
                                          const fs::path& input) {
  if (out.empty()) return fail("expected the path of an output folder, found an empty one");
  NMM_ASSIGN(const fs::path target, identity(out));
  const fs::path staging = target.string() + ".partial";
  if (!input.empty()) {
    NMM_TRY(check_apart(target, input));
    NMM_TRY(check_apart(staging, input));
  }
  NMM_TRY(check_replaceable(target, if_exists));
  NMM_TRY(prepare_staging(staging));
  return FolderWriter(target, staging, if_exists);
}

Status FolderWriter::copy_other_files(const fs::path& from) {
  std::error_code error;
  for (fs::directory_iterator entry(from, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;  // a link to nowhere is no regular file
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') || is_weights(name) || is_about_the_model(name) ||
        !entry->is_regular_file(ignored)) {
      continue;
    }
    if (fs::exists(staging_ / name, ignored)) continue;
    NMM_TRY(copy_durably(entry->path(), staging_ / name));
  }
  if (error) return fail("{}: cannot be read: {}", from.string(), error.message());
  return {};
}

Status FolderWriter::commit() {
  NMM_TRY(check_replaceable(out_, if_exists_));  // it may have appeared meanwhile
  std::error_code error;
  // A name of its own, so that nothing of anybody's is in the way.
  const fs::path aside = fmt::format("{}.replaced-{}", out_.string(), getpid());
  const bool replaces = fs::exists(out_, error);
  if (replaces) fs::rename(out_, aside, error);
  if (error) return rename_error(out_, aside, error);
  fs::rename(staging_, out_, error);
  if (error) {
    std::error_code ignored;
    if (replaces) fs::rename(aside, out_, ignored);
    return rename_error(staging_, out_, error);
  }
  if (replaces) fs::remove_all(aside, error);
  if (error)
    return fail("{}: complete, but the folder that it replaced cannot be deleted from {}: {}",
                out_.string(), aside.string(), error.message());
  return {};
}

void FolderWriter::discard() {
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
}

}  // namespace neuronmm::io
