#include "finetune/training_folder.h"

#include <span>
#include <system_error>

#include <nlohmann/json.hpp>

#include "io/folder_writer.h"
#include "io/json_file.h"
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

// Returns the position that a tensor file holds, or the beginning if there is no such file.
Result<Position> position_in(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Position();
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open_checked(path));
  const auto found = file.metadata().find(kPositionKey);
  return parse_position(found == file.metadata().end() ? "" : found->second, path.string());
}

Status save(const fs::path& path, const std::vector<io::TensorSpec>& tensors,
            const TrainableModel& model, const Position& position) {
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              path, tensors, {{kPositionKey, to_text(position)}}));
  for (const io::TensorSpec& tensor : tensors) {
    const std::vector<float> values = model.read(tensor.name);
    NMM_TRY(writer.append(std::as_bytes(std::span(values))));
  }
  return writer.finish();
}

Status load(const fs::path& path, const std::vector<io::TensorSpec>& tensors,
            TrainableModel& model) {
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open_checked(path));
  for (const io::TensorSpec& tensor : tensors) {
    const auto found = file.tensors().find(tensor.name);
    if (found == file.tensors().end() || found->second.shape != tensor.shape) {
      return fail("{}: expected tensor {} {} of this run, found {}", path.string(), tensor.name,
                  shape_string(tensor.shape),
                  found == file.tensors().end() ? "none" : shape_string(found->second.shape));
    }
    std::vector<float> values(static_cast<size_t>(found->second.size()));
    to_floats(found->second, 0, found->second.size(), values.data());
    model.write(tensor.name, values.data());
  }
  return {};
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
  const json now = json::parse(settings);
  std::error_code error;
  if (fs::exists(settings_path, error)) {
    NMM_ASSIGN(const json before, io::read_json_object(settings_path, io::kMaxConfigBytes));
    NMM_TRY(folder.find_position());
    // The text that a teacher has written counts as work, too.
    const bool started = io::has_unfinished_work(path);
    const Status same = check_same_run(path, before, now, if_started);
    if (if_started == IfStarted::kRestart || (!started && !same.ok())) {
      NMM_TRY(clear(path));
      folder.position_ = {};
    } else {
      NMM_TRY(same);
    }
  } else {
    if (io::has_unfinished_work(path) && if_started != IfStarted::kRestart) {
      return io::other_work_error(path, "it was made by another command");
    }
    NMM_TRY(clear(path));  // killed before its settings were written
  }
  fs::create_directories(path, error);
  if (error) return cannot("created", path, error);
  NMM_TRY(io::write_text_file(settings_path, settings));
  return folder;
}

// Finds the position in two files: the factors after a finished phase, and the state within a
// phase. The run continues from the later of them.
Status TrainingFolder::find_position() {
  NMM_ASSIGN(position_, position_in(merged_path()));
  NMM_ASSIGN(Position state, position_in(state_path()));
  // A state of an earlier phase than the factors' position was merged into the factors.
  if (state.step > 0 && state.phase >= position_.phase) position_ = std::move(state);
  return {};
}

Status TrainingFolder::load_factors(TrainableModel& model) const {
  std::error_code ignored;
  if (!fs::exists(merged_path(), ignored)) return {};
  return load(merged_path(), model.factor_tensors(), model);
}

Status TrainingFolder::load_state(TrainableModel& model) const {
  if (position_.step == 0) return {};
  return load(state_path(), model.phase_tensors(), model);
}

Status TrainingFolder::save_factors(const TrainableModel& model, const Position& position) {
  NMM_TRY(save(merged_path(), model.factor_tensors(), model, position));
  position_ = position;
  std::error_code ignored;
  fs::remove(state_path(), ignored);
  return {};
}

Status TrainingFolder::save_state(const TrainableModel& model, const Position& position) {
  NMM_TRY(save(state_path(), model.phase_tensors(), model, position));
  position_ = position;
  return {};
}

}  // namespace neuronmm::finetune
