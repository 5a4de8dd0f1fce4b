#pragma once
// What a pass over the calibration text (layerwise_pass.h) does in one layer to the hidden states
// of each sequence. The pass describes it as bytes, so that other processes, which have the model
// and their share of the text, do the same to their sequences.

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "compress/message.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/backend.h"

namespace neuronmm::compress {

enum class VisitKind : int32_t {
  kGrams,       // gathers the Gram matrices of the MLP's input and output (gram.h)
  kStatistics,  // gathers the layer's statistics (mlp_statistics.h)
  kNeurons,  // gathers a narrowed MLP's neurons and what down should make of them (neurons_visit.h)
};

struct LayerVisit {
  VisitKind kind = VisitKind::kGrams;
  int64_t layer = 0;
  Bytes arguments = {};  // what the kind needs to know
};

// The hidden states of one sequence, [tokens, H], and the pass's sums.
struct SequenceState {
  MutableMatrixView hidden;
  std::span<DoubleMatrix> sums;
};

class SequenceVisit {
 public:
  virtual ~SequenceVisit() = default;
  // Takes the hidden states through the layer and adds to the sums.
  virtual void visit(const SequenceState& state) = 0;
};

// What visits of a process have in common; all of it outlives them. The cache has room for one
// layer, the 0th, of the longest sequence.
struct VisitContext {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  const ops::Backend& backend;
  const ops::RotaryEmbedding& rotary;
  ops::KvCache& cache;
};

Result<std::unique_ptr<SequenceVisit>> make_visit(const VisitContext& context,
                                                  const LayerVisit& visit);

// One function per kind, each defined in the file that uses the kind.
using VisitResult = Result<std::unique_ptr<SequenceVisit>>;
VisitResult make_gram_visit(const VisitContext& context, const LayerVisit& visit);
VisitResult make_statistics_visit(const VisitContext& context, const LayerVisit& visit);
VisitResult make_neurons_visit(const VisitContext& context, const LayerVisit& visit);

}  // namespace neuronmm::compress
