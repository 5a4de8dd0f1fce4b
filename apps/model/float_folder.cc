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

// Returns the absolute path without a trailing slash, so that "some/model/" has the name "model".
fs::path named_folder(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace

FloatFolder::FloatFolder(const fs::path& out, const fs::path& name)
    : out_(out),
      parent_(named_folder(out).string() + ".floats"),
      marker_(parent_ / "neuronmm-floats"),
      model_(marker_ / name) {}

FloatFolder::~FloatFolder() {
  std::error_code ignored;
  if (owned_) fs::remove_all(parent_, ignored);
}

Status FloatFolder::create(bool force) {
  std::error_code error;
  if (fs::exists(parent_, error) && !fs::exists(marker_, error) && !fs::is_empty(parent_, error)) {
    return fail("{}: is in the way; the weights go there as floats", parent_.string());
  }
  fs::create_directories(marker_, error);
  if (error) return fail("{}: cannot be created: {}", parent_.string(), error.message());
  owned_ = true;
  if (force || !fs::exists(out_, error)) return {};
  // FolderWriter::create() removes the remains of a killed run and refuses any other existing
  // output.
  const auto output = io::FolderWriter::create(out_, io::FolderWriter::IfExists::kRefuse, model_);
  return output.ok() ? Status() : Status(output.error());
}

Status FloatFolder::dequantize(const fs::path& quantized, Progress& progress) {
  const fs::path origin = marker_ / "origin.json";
  NMM_ASSIGN(const auto identity, io::folder_identity(quantized));
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  const std::string text = identity.dump(2, ' ', false, kReplace) + "\n";
  std::error_code ignored;
  if (fs::exists(origin, ignored) && fs::exists(model_, ignored)) {
    const auto saved = io::read_text_file(origin, io::kMaxConfigBytes);
    if (saved.ok() && *saved == text) return {};
  }
  fs::remove(origin, ignored);
  NMM_TRY(compress::dequantize(quantized, model_, progress));
  return io::write_text_file(origin, text);
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
  if (interrupted()) floats.keep();
  return done;
}

}  // namespace neuronmm::apps
