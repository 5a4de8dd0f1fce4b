#pragma once
// Runs a calibration text through a model layer by layer, each layer over all sequences. A pass can
// stop between two sequences, and a later run goes on from there with the same bits.
//
// In memory: the hidden states of all sequences, the sums that the visits of a layer gather and, of
// a text of several groups (sequence_groups.h), the sums of one group. H hidden_size.
//
// With other processes each has its share of the sequences. Such a pass stops between two layers
// only, because the hidden states of a layer are spread over all processes.

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
    std::vector<Shape> sums = {};  // of two dimensions each; empty: two [H, H]
  };

  // Goes on from the state in `work` if there is one, else begins with the embedded text. What
  // `inputs` refer to must outlive the pass.
  static Result<LayerwisePass> open(const CompressionInputs& inputs,
                                    const std::filesystem::path& work, const Settings& settings);
  static std::filesystem::path state_path(const std::filesystem::path& work,
                                          const std::string& name);

  int64_t layer() const { return layer_; }
  bool done() const { return layer_ == num_layers_; }
  // Complete once visit() has seen all sequences.
  DoubleMatrix& sum(size_t which) { return sums_.at(which); }

  // Visits the sequences of the current layer that are not visited yet. An interrupt saves the
  // state.
  Status visit(const LayerVisit& layer_visit);
  // Clears the sums and saves the state, or deletes the saved state after the last layer.
  Status next_layer();

 private:
  // What visits refer to, at one place however often the pass is moved.
  struct Held {
    ops::RotaryEmbedding rotary;
    std::unique_ptr<ops::KvCache> cache;
  };
  explicit LayerwisePass(const CompressionInputs& inputs) : inputs_(inputs) {}
  const std::vector<std::vector<text::TokenId>>& sequences() const {
    return inputs_.text->sequences;
  }
  MutableMatrixView hidden(size_t sequence);  // [tokens of the sequence, H]
  Status embed();
  void visit_next(SequenceVisit& visit);
  Status visit_with_others(const LayerVisit& layer_visit,
                           const Result<std::unique_ptr<SequenceVisit>>& visit);
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

  CompressionInputs inputs_;
  std::filesystem::path work_;
  Settings settings_;
  std::unique_ptr<Held> held_;
  int64_t num_layers_ = 0, hidden_size_ = 0;
  std::vector<int64_t> first_row_;  // of every sequence, and the end
  std::vector<SequenceGroup> groups_;
  int64_t layer_ = 0;
  size_t sequence_ = 0;
  Matrix hidden_;  // of all sequences, one after the other
  // Of the groups that are complete; empty: there is none yet. And of the one that is not.
  std::vector<DoubleMatrix> sums_, group_sums_;
  bool embedded_ = false;     // hidden_ is the embedding still
  bool others_have_ = false;  // their shares
};

}  // namespace neuronmm::compress
