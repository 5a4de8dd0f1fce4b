#pragma once
// What a stage of a pass (layerwise_pass.h) does to the hidden states of the calibration text, one
// sequence after the other. A stage is told as bytes, so that other processes, which have the model
// and their share of the text, do the same to theirs.

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "compress/message.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/backend.h"

namespace neuronmm::compress {

enum class StageKind : int32_t {
  kGrams,       // a whole layer; Gram matrices of its MLP (gram.h)
  kStatistics,  // a whole layer; its statistics (mlp_statistics.h)
  kMlpInputs,   // what the MLP reads in the dense and in the compressed model (mlp_visits.h)
  kMlpOutputs,  // what a dense down makes there of compressed gate and up
  kNeurons,     // a narrowed MLP's neurons and what down should make of them (shape_pass.cc)
  kPassMlp,     // the compressed stream passes the MLP that is finished
};

struct Stage {
  StageKind kind = StageKind::kGrams;
  int64_t layer = 0;
  bool gathers = true;   // sums; false: hidden states alone change
  Bytes arguments = {};  // of the kind
};

// The hidden states of one sequence, [tokens, H] per stream, and the pass's sums.
struct SequenceState {
  std::span<const MutableMatrixView> streams;
  std::span<DoubleMatrix> sums;
};

class SequenceVisit {
 public:
  virtual ~SequenceVisit() = default;
  // Changes the streams and adds to the sums.
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

Result<std::unique_ptr<SequenceVisit>> make_visit(const VisitContext& context, const Stage& stage);

// Of the kinds, each beside what it belongs to.
using VisitResult = Result<std::unique_ptr<SequenceVisit>>;
VisitResult make_gram_visit(const VisitContext& context, const Stage& stage);
VisitResult make_statistics_visit(const VisitContext& context, const Stage& stage);
VisitResult make_mlp_inputs_visit(const VisitContext& context, const Stage& stage);
VisitResult make_mlp_outputs_visit(const VisitContext& context, const Stage& stage);
VisitResult make_neurons_visit(const VisitContext& context, const Stage& stage);
VisitResult make_pass_mlp_visit(const VisitContext& context, const Stage& stage);

}  // namespace neuronmm::compress
