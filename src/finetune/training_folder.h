#pragma once
// What an unfinished fine-tuning keeps in the work folder beside its output.
//
//   settings.json        of the run; another run does not go on from here
//   merged.safetensors   the factors after the last finished phase, fp32
//   state.safetensors    the trained tensors, their best values and AdamW's moments in the middle
//                        of a phase
//   generated-0.safetensors ...  what the teacher wrote (model/self_generated.h)
//
// Both tensor files carry the position of the run; each is replaced all at once.

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "finetune/position.h"
#include "finetune/trainable_model.h"

namespace neuronmm::finetune {

class TrainingFolder {
 public:
  enum class IfStarted { kResumeSame, kResume, kRestart };
  // `folder`: FolderWriter::resume_folder(). `settings`: a JSON object that differs whenever the
  // results would. kResumeSame: goes on from a run with the same settings; any other that has
  // finished a step is an error. kResume: from one whose settings differ in "learning_rate" at
  // most, else says in what. All start where there is no run.
  static Result<TrainingFolder> open(const std::filesystem::path& folder,
                                     const std::string& settings, IfStarted if_started);

  const std::filesystem::path& path() const { return path_; }
  // Where the run stands by what is kept.
  const Position& position() const { return position_; }
  // The factors of the phases and the layers that are done. Before begin_phase.
  Status load_factors(TrainableModel& model) const;
  // The state in the middle of the phase of position(). After begin_phase.
  Status load_state(TrainableModel& model) const;

  Status save_factors(const TrainableModel& model, const Position& position);
  Status save_state(const TrainableModel& model, const Position& position);

 private:
  explicit TrainingFolder(std::filesystem::path path) : path_(std::move(path)) {}
  Status find_position();
  std::filesystem::path state_path() const { return path_ / "state.safetensors"; }
  std::filesystem::path merged_path() const { return path_ / "merged.safetensors"; }

  std::filesystem::path path_;
  Position position_;
};

}  // namespace neuronmm::finetune
