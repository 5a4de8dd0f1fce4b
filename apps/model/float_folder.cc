#include "model/float_folder.h"

#include <system_error>

#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "compress/dequantize.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/text_file.h"
#include "parallel/agreement.h"
#include "processes.h"

namespace neuronmm::apps {

namespace fs = std::filesystem;

namespace {

// "some/model/" is called model, too.
fs::path named_folder(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace

FloatFolder::FloatFolder(const fs::path& out, const fs::path& name)
    : out_(out),
      parent_(named_folder(out).string() + ".floats"),
      mark_(parent_ / "neuronmm-floats"),
      model_(mark_ / name) {}

FloatFolder::~FloatFolder() {
  std::error_code ignored;
  if (ours_) fs::remove_all(parent_, ignored);
}

Status FloatFolder::create(bool force) {
  std::error_code error;
  if (fs::exists(parent_, error) && !fs::exists(mark_, error) && !fs::is_empty(parent_, error)) {
    return fail("{}: is in the way; the weights go there as floats", parent_.string());
  }
  fs::create_directories(mark_, error);
  if (error) return fail("{}: cannot be created: {}", parent_.string(), error.message());
  ours_ = true;
  if (force || !fs::exists(out_, error)) return {};
  // Removes what a killed run left of its own, and refuses all else.
  const auto output = io::FolderWriter::create(out_, io::FolderWriter::IfExists::kRefuse, model_);
  return output.ok() ? Status() : Status(output.error());
}

Status FloatFolder::dequantize(const fs::path& rounded, Progress& progress) {
  const fs::path origin = mark_ / "origin.json";
  NMM_ASSIGN(const auto identity, io::folder_identity(rounded));
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  const std::string text = identity.dump(2, ' ', false, kReplace) + "\n";
  std::error_code ignored;
  if (fs::exists(origin, ignored) && fs::exists(model_, ignored)) {
    const auto left = io::read_text_file(origin, io::kMaxConfigBytes);
    if (left.ok() && *left == text) return {};
  }
  fs::remove(origin, ignored);
  NMM_TRY(compress::dequantize(rounded, model_, progress));
  return io::write_text_file(origin, text);
}

Result<int> run_on_floats(const fs::path& model, const fs::path& out, const FloatOptions& options,
                          const std::function<Result<int>(const fs::path& model)>& command) {
  if (!options.dequantize) return command(model);
  FloatFolder floats(out, named_folder(model).filename());
  parallel::Communicator& all = all_processes();
  Status made;
  if (all.is_first()) {
    Progress progress(stderr);
    made = io::check_output_apart_from_input(out, model);
    if (made.ok()) made = floats.create(options.force);
    if (made.ok()) made = floats.dequantize(model, progress);
  }
  // Process 0 tells what is wrong.
  if (!parallel::agree(all, made).ok()) {
    if (all.is_first()) return made.error();
    return 1;
  }
  Result<int> done = command(floats.model());
  if (interrupted()) floats.keep();
  return done;
}

}  // namespace neuronmm::apps
