#include "compress/sequence_visit.h"

namespace neuronmm::compress {

VisitResult make_visit(const VisitContext& context, const Stage& stage) {
  switch (stage.kind) {
    case StageKind::kGrams:
      return make_gram_visit(context, stage);
    case StageKind::kStatistics:
      return make_statistics_visit(context, stage);
    case StageKind::kMlpInputs:
      return make_mlp_inputs_visit(context, stage);
    case StageKind::kMlpOutputs:
      return make_mlp_outputs_visit(context, stage);
    case StageKind::kNeurons:
      return make_neurons_visit(context, stage);
    case StageKind::kPassMlp:
      return make_pass_mlp_visit(context, stage);
  }
  return fail("no such stage");
}

}  // namespace neuronmm::compress
