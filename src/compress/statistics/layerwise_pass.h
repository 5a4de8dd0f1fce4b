#pragma once
// Runs a calibration text through a model layer by layer, all sequences through one layer before
// the next layer begins. Statistics (mlp_statistics.h, layer_grams.h) and the fit of down
// (factors/down_fit.h) use such passes. A pass can stop between two sequences, and a later run
// continues there with the same bits.
//
// Memory holds the hidden states of all sequences and the sums that the visits of a layer gather.
// If the text has several groups (sequence_groups.h), it also holds the sums of one group. H
// hidden_size.
//
// If other processes help (data_parallel.h), each of them has its share of the sequences. Such a
// pass can stop only between two layers, because the hidden states of a layer are spread over all
// processes.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "base/progress.h"
#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "compress/statistics/inputs.h"
#include "compress/statistics/sequence_groups.h"
#include "compress/statistics/sequence_visit.h"
#include "io/safetensors.h"

namespace neuronmm::compress {

// A pass and its state.
class LayerwisePass {
 public:
  struct Settings {
    // The name of the state file in the work folder, without .safetensors.
    std::string name;
    // The label of the progress bar.
    std::string label;
    // The shapes of the sums, of two dimensions each. If empty, there are two sums [H, H].
    std::vector<Shape> sums = {};
  };

  // Continues from the state in `work` if there is one. Otherwise the pass begins with the embedded
  // text. What `inputs` refers to must outlive the pass.
  static Result<LayerwisePass> open(const CompressionInputs& inputs,
                                    const std::filesystem::path& work, const Settings& settings);
  // Returns the file of a pass's state.
  static std::filesystem::path state_path(const std::filesystem::path& work,
                                          const std::string& name);

  int64_t layer() const { return layer_; }
  bool done() const { return layer_ == num_layers_; }
  // A sum of the current layer, which is complete when visit() has seen all sequences.
  DoubleMatrix& sum(size_t which) { return sums_.at(which); }

  // Visits those sequences of the current layer that have not been visited yet. Returns an error
  // when interrupted. A pass of a single process then saves its state; a pass with other processes
  // keeps the state of the last finished layer.
  Status visit(const LayerVisit& layer_visit);
  // Ends the layer: clears the sums and saves the state. After the last layer the saved state is
  // deleted.
  Status next_layer();

 private:
  // Objects that visits refer to. Their addresses stay the same when the pass is moved.
  struct Held {
    model::RotaryTables rotary;
    std::unique_ptr<ops::KvCache> cache;
  };
  explicit LayerwisePass(const CompressionInputs& inputs) : inputs_(inputs) {}
  const std::vector<std::vector<text::TokenId>>& sequences() const {
    return inputs_.text->sequences;
  }
  // Returns the hidden states of a sequence, [tokens, H].
  MutableMatrixView hidden(size_t sequence);
  Status embed();
  void visit_next(SequenceVisit& visit);
  Status visit_with_helpers(const LayerVisit& layer_visit,
                            const Result<std::unique_ptr<SequenceVisit>>& visit);
  void close_group();
  Status stop() const;
  Error stopped() const;
  void report();
  void clear_sums();
  std::vector<DoubleMatrix> zero_sums() const;
  Status save() const;
  bool load();
  void start_progress() const;
  bool load_sums(const io::SafetensorsFile& file, std::string (*name)(size_t), int64_t count,
                 std::vector<DoubleMatrix>& sums) const;

  CompressionInputs inputs_;
  std::filesystem::path work_;
  Settings settings_;
  std::unique_ptr<Held> held_;
  int64_t num_layers_ = 0, hidden_size_ = 0;
  // The first row of every sequence in hidden_, and the end.
  std::vector<int64_t> first_row_;
  std::vector<SequenceGroup> groups_;
  int64_t layer_ = 0;
  size_t sequence_ = 0;
  // The hidden states of all sequences, one after the other.
  Matrix hidden_;
  // sums_ holds the sums of the complete groups and is empty if there are none yet. group_sums_
  // holds those of the current group.
  std::vector<DoubleMatrix> sums_, group_sums_;
  // Whether hidden_ still holds the embedded text.
  bool embedded_ = false;
  // Whether the other processes have their shares of the text.
  bool helpers_have_ = false;
};

}  // namespace neuronmm::compress
