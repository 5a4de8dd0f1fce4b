#include "model/float_folder.h"

#include <system_error>

#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/notices.h"
#include "compress/dequantize.h"
#include "io/atomic_file.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/text_file.h"
#include "parallel/agreement.h"
#include "processes.h"

namespace neuronmm::apps {

namespace fs = std::filesystem;

namespace {

// Returns the absolute path without a trailing slash, so that "some/model/" has the name "model".
fs::path named_folder(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace

FloatFolder::FloatFolder(const fs::path& out, const fs::path& name)
    : out_(out),
      parent_(named_folder(out).string() + ".floats"),
      model_(parent_ / "work/floats" / name) {}

FloatFolder::~FloatFolder() {
  const Status removed = remove();
  if (!removed.ok()) notify(removed.error().message + "; the next run for it will delete it");
}

fs::path FloatFolder::note() const { return parent_ / "work/origin.json"; }

Status FloatFolder::create(bool force) {
  NMM_ASSIGN(folder_, io::StagingFolder::create(parent_));
  NMM_TRY(folder_->mark_in_use());
  std::error_code error;
  if (force || (!fs::exists(out_, error) && !error)) return {};
  // FolderWriter::create() removes the remains of a killed run and refuses any other existing
  // output.
  const auto output = io::FolderWriter::create(out_, io::FolderWriter::IfExists::kRefuse, model_);
  return output.ok() ? Status() : Status(output.error());
}

Status FloatFolder::fill(const std::string& origin, const std::function<Status()>& write) {
  std::error_code error;
  const auto saved = io::read_text_file(note(), io::kMaxConfigBytes);
  if (saved.ok() && !origin.empty() && *saved == origin && fs::exists(model_, error)) return {};
  fs::remove(note(), error);
  if (!error) fs::remove_all(model_.parent_path(), error);
  if (error) return fail("{}: cannot be deleted: {}", parent_.string(), error.message());
  NMM_TRY(io::make_folder(model_.parent_path()));
  NMM_TRY(write());
  return origin.empty() ? Status() : io::write_text_file(note(), origin);
}

Status FloatFolder::dequantize(const fs::path& quantized, Progress& progress) {
  NMM_ASSIGN(const auto identity, io::folder_identity(quantized));
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return fill(identity.dump(2, ' ', false, kReplace) + "\n",
              [&] { return compress::dequantize(quantized, model_, progress); });
}

Status FloatFolder::remove() {
  if (!folder_) return {};
  std::error_code error;
  fs::remove(note(), error);
  if (error) return fail("{}: cannot be deleted: {}", note().string(), error.message());
  NMM_TRY(folder_->remove());
  folder_.reset();
  return {};
}

Result<int> run_on_floats(const fs::path& model, const fs::path& out, const FloatOptions& options,
                          const std::function<Result<int>(const fs::path& model)>& command) {
  if (!options.dequantize) return command(model);
  FloatFolder floats(out, named_folder(model).filename());
  parallel::Communicator& all = world_communicator();
  Status created;
  if (all.is_first()) {
    Progress progress(stderr);
    created = io::check_output_apart_from_input(out, model);
    if (created.ok()) created = floats.create(options.force);
    if (created.ok()) created = floats.dequantize(model, progress);
  }
  // Process 0 returns the error; the others return 1 without a message.
  if (!parallel::first_error_of_all(all, created).ok()) {
    if (all.is_first()) return created.error();
    return 1;
  }
  Result<int> done = command(floats.model());
  if (interrupted()) {
    floats.keep();
    return done;
  }
  const Status removed = floats.remove();
  // An error of the command comes first; the destructor then tries again and says what is left.
  if (!removed.ok() && done.ok()) return removed.error();
  return done;
}

}  // namespace neuronmm::apps
