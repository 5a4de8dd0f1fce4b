#pragma once
// The files that an unfinished fine-tuning keeps in the work folder next to its output. Training
// saves and resumes with it. It fails on damaged files, on a full disk, and on a folder of a run
// with other settings.
//
//   settings.json        the settings of the run; a run with other settings does not continue here
//   state.safetensors    the position, and in fp32 the trained tensors, their best values and
//                        AdamW's moments; replaced as a whole
//   generated-0.safetensors ...  the text that the teacher wrote (model/self_generated.h)

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "finetune/position.h"
#include "training/optimizer.h"

namespace neuronmm::finetune {

// The work folder of one run.
class TrainingFolder {
 public:
  // The treatment of an earlier run in the folder.
  enum class IfStarted { kResumeSame, kResume, kRestart };
  // Opens or creates the folder. `folder` is FolderWriter::resume_folder(). `settings` is a JSON
  // object that differs whenever the results would. Without an earlier run every mode starts a new
  // one.
  // - kResumeSame continues a run with the same settings. Any other run that has kept work, be it
  //   of another command, is an error.
  // - kResume does the same, but the "learning_rate" may differ. The error says which setting
  //   differs.
  // - kRestart discards the earlier run, even if its files are damaged.
  static Result<TrainingFolder> open(const std::filesystem::path& folder,
                                     const std::string& settings, IfStarted if_started);

  const std::filesystem::path& path() const { return path_; }
  // Returns the position of the saved run.
  const Position& position() const { return position_; }
  // Loads the saved state, if there is one. The best values must have been kept before.
  Status load(training::Optimizer<float>& optimizer) const;
  Status save(training::Optimizer<float>& optimizer, const Position& position);

 private:
  explicit TrainingFolder(std::filesystem::path path) : path_(std::move(path)) {}
  Status find_earlier_run(const nlohmann::json& settings, IfStarted if_started);
  Status find_position();
  std::filesystem::path state_path() const { return path_ / "state.safetensors"; }

  std::filesystem::path path_;
  Position position_;
};

}  // namespace neuronmm::finetune
