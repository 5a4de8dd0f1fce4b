#include "io/folder_writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/notices.h"
#include "io/adapter_config.h"
#include "io/adapter_file.h"
#include "io/atomic_file.h"
#include "io/file_identity.h"
#include "io/foreign_files.h"
#include "io/gguf.h"
#include "io/inode.h"
#include "io/model_config.h"
#include "io/model_name.h"
#include "io/mounted_model.h"
#include "io/unfinished_work.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

// Returns `path` as an absolute path without links, dots or a slash at its end. It need not exist.
Result<fs::path> identity(const fs::path& path) {
  NMM_ASSIGN(fs::path canonical, resolved_path(path));
  if (!canonical.has_filename()) canonical = canonical.parent_path();
  return canonical;
}

// Returns true if `inner` is `outer` or lies inside it, by name or by identity. Identities differ
// from names if there are bind mounts, for example.
bool is_within(const fs::path& inner, const fs::path& outer) {
  std::error_code ignored;
  for (fs::path path = inner;; path = path.parent_path()) {
    if (path == outer || fs::equivalent(path, outer, ignored)) return true;
    if (path == path.parent_path()) return false;
  }
}

// The check looks for weights, because a config.json alone may belong to anything.
bool has_safetensors(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") return true;
  }
  return false;
}

// Returns whether the folder is one that `import` makes of a vocabulary without weights.
bool is_tokenizer_folder(const fs::path& folder) {
  std::error_code error;
  bool tokenizer = false;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != "tokenizer.json" && name != "tokenizer_config.json") return false;
    tokenizer = tokenizer || name == "tokenizer.json";
  }
  return tokenizer && !error;
}

// Returns whether `out` holds a LoRA adapter of PEFT and nothing else.
bool is_adapter_folder(const fs::path& out) {
  std::error_code error;
  bool config = false, tensors = false;
  for (fs::directory_iterator entry(out, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    config = config || name == kAdapterConfigName;
    tensors = tensors || name == kAdapterFileName;
    if (name != kAdapterConfigName && name != kAdapterFileName) return false;
  }
  return config && tensors && !error;
}

// Somebody has put an adapter beside the model, which no command does.
Status refuse_adapter_beside_model(const fs::path& out) {
  std::error_code ignored;
  for (const auto& name : {kAdapterConfigName, kAdapterFileName}) {
    if (!fs::exists(fs::symlink_status(out / name, ignored))) continue;
    return not_replaced(out, name);
  }
  return {};
}

// `origin` is the folder whose files may also be in `out` (io/foreign_files.h).
Status check_replaceable(const fs::path& out, FolderWriter::IfExists if_exists,
                         const fs::path& origin) {
  std::error_code error;
  const fs::file_status status = fs::status(out, error);
  if (status.type() == fs::file_type::not_found) {
    if (!fs::is_symlink(fs::symlink_status(out, error))) return {};
    return fail("{}: expected an output folder, found a link to nothing", out.string());
  }
  if (error) return fail("{}: cannot be read: {}", out.string(), error.message());
  if (!fs::is_directory(status))
    return fail("{}: expected an output folder, found a file", out.string());
  if (if_exists == FolderWriter::IfExists::kRefuse)
    return Error{out.string() + ": already exists", Error::Kind::kExists};
  // Replacing deletes the old folder, so it must be one that this program could have written.
  if (fs::is_empty(out, error) || is_tokenizer_folder(out) || is_adapter_folder(out)) return {};
  const auto config = ModelConfig::load(out / "config.json");
  if (!config.ok())
    return fail("{}: is not replaced: it is not a model folder ({})", out.string(),
                config.error().message);
  if (!has_safetensors(out))
    return fail("{}: is not replaced: it is not a model folder (no *.safetensors in it)",
                out.string());
  NMM_TRY(refuse_adapter_beside_model(out));
  return require_model_files_only(out, origin, out);
}

// In a container, the folders of its image cannot be renamed (EXDEV).
Error rename_error(const fs::path& from, const fs::path& to, int code) {
  return fail(
      "{}: cannot be renamed to {}: {}{}", from.string(), to.string(),
      std::generic_category().message(code),
      code == EXDEV ? "; if it belongs to the image of a container, choose another output" : "");
}

Status rename_folder(const fs::path& from, const fs::path& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return {};
  return rename_error(from, to, errno);
}

// Swaps two folders in one step. Returns false if the file system cannot do that.
Result<bool> exchange(const fs::path& a, const fs::path& b) {
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
  return rename_error(a, b, errno);
}

// Deletes what the commit of `out` has replaced, and the staging folder.
Status remove_after_commit(const StagingFolder& staging, const fs::path& out) {
  NMM_TRY(remove_model_folder(staging.model(), out));
  NMM_TRY(remove_model_folder(staging.replaced(), out));
  return staging.remove();
}

// Ends a commit that a killed run has begun. An output that the run had put aside goes back to its
// place. If the new output is in place already, the staging folder is removed, and the result is
// true.
Result<bool> finish_killed_commit(const StagingFolder& staging, const fs::path& out) {
  std::error_code ignored;
  if (fs::exists(staging.replaced(), ignored) && !fs::exists(out, ignored)) {
    NMM_TRY(rename_folder(staging.replaced(), out));
  }
  if (!staging.is_committed(out)) return false;
  NMM_TRY(remove_after_commit(staging, out));
  return true;
}

bool is_empty_folder(const fs::path& folder) {
  std::error_code error;
  return fs::is_empty(folder, error) && !error;
}

// Fails if the folder can neither be written nor made.
Status check_writable(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  if (!fs::is_directory(folder, error))
    return fail("{}: expected a folder for the output, found a file", folder.string());
  if (access(folder.c_str(), W_OK) == 0) return {};
  return fail("{}: cannot be written: {}", folder.string(), std::generic_category().message(errno));
}

// The staging folder is next to the output, on the same file system, so that it can be renamed.
fs::path staging_path_of(const fs::path& out) { return out.string() + ".partial"; }

// Ends the commit of a killed run, and removes a staging folder that holds no work.
Status clear_staging(const fs::path& out) {
  const fs::path path = staging_path_of(out);
  NMM_ASSIGN(const auto unfinished, StagingFolder::find(path));
  if (!unfinished) return {};
  NMM_ASSIGN(const bool finished, finish_killed_commit(*unfinished, out));
  if (!finished && is_empty_folder(path)) NMM_TRY(unfinished->remove());
  return {};
}

// Refuses to lose the unfinished work of another command, or deletes it.
Status give_up_work(const fs::path& work, FolderWriter::IfExists if_exists) {
  if (!has_unfinished_work(work)) return {};
  if (if_exists == FolderWriter::IfExists::kRefuse) {
    return other_work_error(work, "it was made by another command");
  }
  std::error_code error;
  fs::remove_all(work, error);
  if (error) return fail("{}: cannot be deleted: {}", work.string(), error.message());
  return {};
}

}  // namespace

void remove_remains(const fs::path& out) {
  const auto target = identity(out);
  if (target.ok()) (void)clear_staging(*target);
}

Result<fs::path> resume_folder_of(const fs::path& out) {
  NMM_ASSIGN(const fs::path target, identity(out));
  return staging_path_of(target) / "work";
}

Status check_output_apart_from_input(const fs::path& out, const fs::path& input) {
  NMM_ASSIGN(const fs::path target, identity(out));
  NMM_ASSIGN(const fs::path source, identity(input));
  if (is_within(target, source))
    return fail("{}: the output must lie outside the input folder {}", target.string(),
                source.string());
  if (is_within(source, target))
    return fail("{}: the input folder {} lies in it; expected an output folder of its own",
                target.string(), source.string());
  return {};
}

Status check_space(const fs::path& folder, int64_t needed) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (!error && space.available < static_cast<uint64_t>(needed))
    return fail("{}: the weights take {:.1f} GB, the disk has {:.1f} GB free", folder.string(),
                static_cast<double>(needed) / 1e9, static_cast<double>(space.available) / 1e9);
  return {};
}

Status require_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found)
    return fail("{}: there is no such folder{}", folder.string(),
                missing_model_hint(folder.string()));
  if (error) return fail("{}: cannot be read: {}", folder.string(), error.message());
  NMM_ASSIGN(const auto mounted, mounted_model(folder));
  if (mounted != nullptr) return {};
  NMM_TRY(refuse_gguf(folder, "a model folder (config.json, *.safetensors, tokenizer.json)"));
  if (!fs::is_directory(status))
    return fail("{}: expected a model folder, found a file", folder.string());
  return {};
}

FolderWriter::FolderWriter(fs::path out, StagingFolder staging, IfExists if_exists)
    : out_(std::move(out)), staging_(std::move(staging)), if_exists_(if_exists) {}

Status FolderWriter::check(const fs::path& out, IfExists if_exists, const fs::path& input) {
  if (out.empty()) return fail("expected the path of an output folder, found an empty one");
  NMM_ASSIGN(const fs::path target, identity(out));
  for (const fs::path& folder : {target, staging_path_of(target)}) {
    if (!input.empty()) NMM_TRY(check_output_apart_from_input(folder, input));
  }
  remove_remains(target);
  NMM_TRY(check_replaceable(target, if_exists, input));
  return check_writable(target.parent_path());
}

Result<FolderWriter> FolderWriter::create(const fs::path& out, IfExists if_exists,
                                          const fs::path& input, Resume resume) {
  if (out.empty()) return fail("expected the path of an output folder, found an empty one");
  NMM_ASSIGN(const fs::path target, identity(out));
  const fs::path staging_path = staging_path_of(target);
  if (!input.empty()) {
    NMM_TRY(check_output_apart_from_input(target, input));
    NMM_TRY(check_output_apart_from_input(staging_path, input));
  }
  NMM_TRY(clear_staging(target));
  NMM_TRY(check_replaceable(target, if_exists, input));
  NMM_ASSIGN(StagingFolder staging, StagingFolder::create(staging_path));
  FolderWriter writer(target, std::move(staging), if_exists);
  NMM_TRY(writer.prepare(resume));
  return writer;
}

FolderWriter::FolderWriter(FolderWriter&& other) noexcept
    : out_(std::move(other.out_)),
      staging_(std::move(other.staging_)),
      if_exists_(other.if_exists_),
      committed_(std::exchange(other.committed_, true)) {}

FolderWriter::~FolderWriter() {
  if (committed_) return;
  const Status abandoned = abandon();
  if (!abandoned.ok()) notify(abandoned.error().message + "; the next run for it will delete it");
}

// An interrupted run continues from the files in work/. The output itself is written again.
Status FolderWriter::prepare(Resume resume) const {
  if (resume == Resume::kNever) NMM_TRY(give_up_work(resume_folder(), if_exists_));
  NMM_TRY(staging_.mark_in_use());
  NMM_TRY(staging_.remove_model());
  std::error_code error;
  fs::create_directory(staging(), error);
  if (!error) fs::create_directory(resume_folder(), error);
  if (!error) return {};
  return fail("{}: cannot be prepared: {}", staging_.path().string(), error.message());
}

// An old output that was put aside stays for the next run, which puts it back.
Status FolderWriter::abandon() const {
  std::error_code error;
  if (fs::exists(staging_.replaced(), error) || error) return {};
  return has_unfinished_work(resume_folder()) ? staging_.remove_model() : staging_.remove();
}

// Exchanges the output with staging(). If a file of somebody else has appeared in the old output
// meanwhile, the two are exchanged again. Returns false if the file system cannot exchange folders.
Result<bool> FolderWriter::exchange_with_output() {
  NMM_ASSIGN(const bool exchanged, exchange(staging(), out_));
  if (!exchanged) return false;
  const Status alone = require_model_files_only(staging(), out_, out_);
  if (alone.ok()) return true;
  const auto restored = exchange(staging(), out_);
  committed_ = !restored.ok();  // the old output, which is in staging(), must not be deleted
  return alone.error();
}

// An exchange is one step of the system: at every moment the name leads to the old output or to the
// new one. If an exchange is not possible, the old output is put aside, and comes back if the
// second step fails.
Status FolderWriter::replace_output() {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(out_, error))) return rename_folder(staging(), out_);
  NMM_ASSIGN(const bool exchanged, exchange_with_output());
  if (exchanged) return {};
  NMM_TRY(rename_folder(out_, staging_.replaced()));
  Status renamed = require_model_files_only(staging_.replaced(), staging(), out_);
  if (renamed.ok()) renamed = rename_folder(staging(), out_);
  if (!renamed.ok()) NMM_TRY(rename_folder(staging_.replaced(), out_));
  return renamed;
}

// Data reach the disk before their names do. After a crash of the machine, the output is complete
// and either the old one or the new one.
Status FolderWriter::commit() {
  // The output may have appeared in the meantime.
  NMM_TRY(check_replaceable(out_, if_exists_, staging()));
  NMM_TRY(sync_folder(staging()));
  const auto model = inode_of(staging());
  if (!model) return fail("{}: cannot be read: {}", staging().string(), std::strerror(errno));
  NMM_TRY(staging_.mark_commit(*model));
  NMM_TRY(replace_output());
  committed_ = true;
  const Status synced = sync_folder(out_.parent_path());
  const Status removed = remove_after_commit(staging_, out_);
  if (!removed.ok()) {
    return fail("{}: complete, but what it was made from is left over: {}", out_.string(),
                removed.error().message);
  }
  return synced;
}

}  // namespace neuronmm::io
