#pragma once
// The way of a calibration text through a model: layer by layer, each in one or more stages, each
// of them over all sequences. It can stop between two sequences and go on from there later,
// exactly.
//
// In memory: the hidden states of all sequences, as many streams of them as the caller wants, the
// sums that a stage gathers and, of a text of several groups (sequence_groups.h), those of one
// group. H hidden_size.
//
// With other processes each has its share of the sequences. Then a pass stops between two layers
// only: what a stage has done is spread over all of them.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "base/progress.h"
#include "base/result.h"
#include "compress/inputs.h"
#include "compress/linear_algebra.h"
#include "compress/sequence_groups.h"
#include "compress/sequence_visit.h"
#include "io/safetensors.h"

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
  // stream. What `inputs` refer to must outlive the pass.
  static Result<LayerwisePass> open(const PassInputs& inputs, const std::filesystem::path& work,
                                    const Settings& settings);
  static std::filesystem::path state_path(const std::filesystem::path& work,
                                          const std::string& name);

  int64_t layer() const { return layer_; }
  int64_t stage() const { return stage_; }
  bool done() const { return layer_ == num_layers_; }
  // Once a stage that gathers has seen all sequences.
  DoubleMatrix& sum(size_t which) { return sums_.at(which); }

  // Visits the sequences that this stage has not seen. Interrupted: saves the state.
  Status run_stage(const Stage& stage);

  void next_stage();    // with new sums
  Status next_layer();  // the same, and saves the state; after the last layer deletes it

 private:
  // What visits refer to, at one place however often the pass is moved.
  struct Held {
    ops::RotaryEmbedding rotary;
    std::unique_ptr<ops::KvCache> cache;
  };
  explicit LayerwisePass(const PassInputs& inputs) : inputs_(inputs) {}
  const std::vector<std::vector<text::TokenId>>& sequences() const {
    return inputs_.text.sequences;
  }
  MutableMatrixView hidden(size_t stream, size_t sequence);  // [tokens of the sequence, H]
  Status embed();
  void visit_next(SequenceVisit& visit);
  Status run_with_others(const Stage& stage, const Result<std::unique_ptr<SequenceVisit>>& visit);
  void close_group();
  Status stop() const;
  Error stopped() const;
  void report();
  void clear_sums();
  std::vector<DoubleMatrix> zero_sums() const;
  Status save() const;
  bool load();
  bool load_sums(const io::SafetensorsFile& file, std::string (*name)(size_t), int64_t count,
                 std::vector<DoubleMatrix>& sums) const;

  PassInputs inputs_;
  std::filesystem::path work_;
  Settings settings_;
  std::unique_ptr<Held> held_;
  int64_t num_layers_ = 0, hidden_size_ = 0;
  std::vector<int64_t> first_row_;  // of every sequence, and the end
  std::vector<SequenceGroup> groups_;
  int64_t layer_ = 0, stage_ = 0;
  size_t sequence_ = 0;
  std::vector<Matrix> hidden_;
  // Of the groups that are complete; empty: there is none yet. And of the one that is not.
  std::vector<DoubleMatrix> sums_, group_sums_;
  bool embedded_ = false;     // hidden_ is the embedding still
  bool others_have_ = false;  // their shares
};

}  // namespace neuronmm::compress
