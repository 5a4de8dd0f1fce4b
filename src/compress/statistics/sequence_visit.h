#pragma once
// A visit: the work that a pass over the calibration text (layerwise_pass.h) does in one layer with
// the hidden states of each sequence. A visit is described by bytes (LayerVisit), so that other
// processes can do the same with their share of the text.

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "compress/statistics/message.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "model/rope.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// The sums that a visit gathers.
enum class VisitKind : int32_t {
  kGrams,       // gathers the Gram matrices of the MLP's input and output (gram.h)
  kStatistics,  // gathers the layer's statistics (mlp_statistics.h)
  // Gathers the neurons of a narrowed MLP and what down should make of them (neurons_visit.h).
  kNeurons,
};

// The visit of a layer, as process 0 describes it.
struct LayerVisit {
  VisitKind kind = VisitKind::kGrams;
  int64_t layer = 0;
  // The arguments of the function for `kind`, as a message.
  Bytes arguments = {};
};

// The hidden states [tokens, H] of one sequence and the sums of the pass.
struct SequenceState {
  MutableMatrixView hidden;
  std::span<DoubleMatrix> sums;
};

// A visit, made by make_visit().
class SequenceVisit {
 public:
  virtual ~SequenceVisit() = default;
  // Runs the hidden states through the layer, in place, and adds to the sums.
  virtual void visit(const SequenceState& state) = 0;
};

// The objects that all visits of a process share. They must outlive the visits. The cache is made
// for one layer (layer 0) and the longest sequence.
struct VisitContext {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  const ops::Backend& backend;
  const model::RotaryTables& rotary;
  ops::KvCache& cache;
};

// Makes the visit that `visit` describes. Fails if the layer's weights cannot be read.
Result<std::unique_ptr<SequenceVisit>> make_visit(const VisitContext& context,
                                                  const LayerVisit& visit);

// Make the visits of each kind. Each function is defined in the file that gathers the sums of that
// kind.
using VisitResult = Result<std::unique_ptr<SequenceVisit>>;
VisitResult make_gram_visit(const VisitContext& context, const LayerVisit& visit);
VisitResult make_statistics_visit(const VisitContext& context, const LayerVisit& visit);
VisitResult make_neurons_visit(const VisitContext& context, const LayerVisit& visit);

}  // namespace neuronmm::compress
