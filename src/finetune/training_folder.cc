#include "finetune/training_folder.h"

#include <span>
#include <system_error>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "io/text_file.h"
#include "io/unfinished_work.h"

namespace neuronmm::finetune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSettingsName = "settings.json";
constexpr const char* kPositionKey = "position";
constexpr const char* kLearningRateKey = "learning_rate";

Error cannot(const char* verb, const fs::path& path, const std::error_code& error) {
  return fail("{}: cannot be {}: {}", path.string(), verb, error.message());
}

// Returns an error that says that the run in the folder cannot go on, and what may replace it.
Error damaged_run(const fs::path& work, const Error& error) {
  return Error{fmt::format("{}: the unfinished run there cannot go on ({})",
                           work.parent_path().string(), error.message),
               Error::Kind::kExists};
}

// Returns an error that names the first setting in which the runs differ. With kResume the learning
// rate may differ, because a run that diverged is resumed with a smaller one.
Status check_same_run(const fs::path& work, const json& before, const json& now,
                      TrainingFolder::IfStarted if_started) {
  const bool other_rate = if_started == TrainingFolder::IfStarted::kResume;
  for (const auto& [key, value] : now.items()) {
    if (before.contains(key) && before.at(key) == value) continue;
    if (key == kLearningRateKey && other_rate) continue;
    if (key != kLearningRateKey) {
      return io::other_work_error(work, io::settings_difference(work, now.dump()));
    }
    // A different learning rate may be intended, so that this error suggests to resume the
    // unfinished run.
    const std::string there = before.contains(key) ? before.at(key).dump() : "nothing";
    return Error{fmt::format("{}: the unfinished run there has {} {}, this one has {}",
                             work.parent_path().string(), key, there, value.dump()),
                 Error::Kind::kUnfinished};
  }
  return {};
}

Status clear(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) return cannot("deleted", folder, error);
  return {};
}

}  // namespace

Result<TrainingFolder> TrainingFolder::open(const fs::path& path, const std::string& settings,
                                            IfStarted if_started) {
  TrainingFolder folder(path);
  const fs::path settings_path = path / kSettingsName;
  std::error_code error;
  if (if_started == IfStarted::kRestart) {
    NMM_TRY(clear(path));  // whatever is in it, files that are damaged, too
  } else if (fs::exists(settings_path, error)) {
    NMM_TRY(folder.find_earlier_run(json::parse(settings), if_started));
  } else {
    if (io::has_unfinished_work(path))
      return io::other_work_error(path, "it was made by another command");
    NMM_TRY(clear(path));  // killed before its settings were written
  }
  fs::create_directories(path, error);
  if (error) return cannot("created", path, error);
  NMM_TRY(io::write_text_file(settings_path, settings));
  return folder;
}

// Fails if the earlier run has kept work and differs. Without work its settings do not matter.
Status TrainingFolder::find_earlier_run(const json& settings, IfStarted if_started) {
  const auto before = io::read_json_object(path_ / kSettingsName, io::kMaxConfigBytes);
  if (!before.ok()) return damaged_run(path_, before.error());
  // The text that a teacher has written counts as work, too.
  const bool started = io::has_unfinished_work(path_);
  const Status same = check_same_run(path_, *before, settings, if_started);
  if (!started && !same.ok()) return clear(path_);
  NMM_TRY(same);
  const Status found = find_position();
  return found.ok() ? found : damaged_run(path_, found.error());
}

Status TrainingFolder::find_position() {
  std::error_code ignored;
  if (!fs::exists(state_path(), ignored)) return {};
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open_checked(state_path()));
  const auto found = file.metadata().find(kPositionKey);
  NMM_ASSIGN(position_, parse_position(found == file.metadata().end() ? "" : found->second,
                                       state_path().string()));
  return {};
}

Status TrainingFolder::load(training::Optimizer<float>& optimizer) const {
  if (position_.step == 0) return {};
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open_checked(state_path()));
  for (const auto& [name, values] : optimizer.state()) {
    const auto found = file.tensors().find(name);
    const Shape shape = {values.rows, values.columns};
    if (found == file.tensors().end() || found->second.shape != shape) {
      return fail("{}: expected tensor {} {} of this run, found {}", state_path().string(), name,
                  shape_string(shape),
                  found == file.tensors().end() ? "none" : shape_string(found->second.shape));
    }
    to_floats(found->second, 0, found->second.size(), values.data);
  }
  optimizer.set_steps(position_.updates);
  optimizer.state_written();
  return {};
}

Status TrainingFolder::save(training::Optimizer<float>& optimizer, const Position& position) {
  const auto state = optimizer.state();
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, values] : state) {
    specs.push_back({name, DType::kF32, {values.rows, values.columns}});
  }
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              state_path(), specs, {{kPositionKey, to_text(position)}}));
  for (const auto& [name, values] : state) {
    const std::span<const float> floats(values.data,
                                        static_cast<size_t>(values.rows * values.columns));
    NMM_TRY(writer.append(std::as_bytes(floats)));
  }
  NMM_TRY(writer.finish());
  position_ = position;
  return {};
}

}  // namespace neuronmm::finetune
