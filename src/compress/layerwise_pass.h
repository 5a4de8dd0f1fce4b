#pragma once
// The way of a calibration text through a model: layer by layer, each in one or more stages, each
// of them over all sequences. It can stop between two sequences and go on from there later,
// exactly.
//
// In memory: the hidden states of all sequences, as many streams of them as the caller wants, and
// the sums that a stage gathers. H hidden_size.

#include <filesystem>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration_text.h"
#include "compress/linear_algebra.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

class LayerwisePass {
 public:
  struct Settings {
    std::string name;              // of the state file in the work folder: NAME.safetensors
    std::string label;             // of the progress bar
    int64_t stages = 1;            // per layer
    int64_t streams = 1;           // of hidden states
    std::vector<Shape> sums = {};  // of two dimensions each; empty: two [H, H]
  };

  // Goes on from the state in `work` if there is one, else begins with the embedded text in every
  // stream. `text` and `progress` must outlive the pass.
  static Result<LayerwisePass> open(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                                    const CalibrationSequences& text,
                                    const std::filesystem::path& work, const Settings& settings,
                                    Progress& progress);
  static std::filesystem::path state_path(const std::filesystem::path& work,
                                          const std::string& name);

  int64_t layer() const { return layer_; }
  int64_t stage() const { return stage_; }
  bool done() const { return layer_ == num_layers_; }
  MutableMatrixView hidden(int64_t stream, size_t sequence);  // [tokens of the sequence, H]
  DoubleMatrix& sum(size_t which) { return sums_.at(which); }

  // visit(sequence) for those that this stage has not seen. Interrupted: saves the state.
  template <typename Visit>
  Status visit_sequences(const Visit& visit) {
    while (sequence_ < text_->sequences.size()) {
      if (interrupted()) return stop();
      visit(sequence_++);
      report();
    }
    return interrupted() ? stop() : Status();
  }

  void next_stage();    // with sums of 0
  Status next_layer();  // the same, and saves the state; after the last layer deletes it

 private:
  Status stop() const;
  void report();
  void clear_sums();
  Status save() const;
  bool load();

  std::filesystem::path work_;
  Settings settings_;
  const CalibrationSequences* text_ = nullptr;
  Progress* progress_ = nullptr;
  int64_t num_layers_ = 0, hidden_size_ = 0;
  std::vector<int64_t> first_row_;  // of every sequence, and the end
  int64_t layer_ = 0, stage_ = 0;
  size_t sequence_ = 0;
  std::vector<Matrix> hidden_;
  std::vector<DoubleMatrix> sums_;
};

}  // namespace neuronmm::compress
