#include "compress/sequence_visit.h"

namespace neuronmm::compress {

VisitResult make_visit(const VisitContext& context, const LayerVisit& visit) {
  switch (visit.kind) {
    case VisitKind::kGrams:
      return make_gram_visit(context, visit);
    case VisitKind::kStatistics:
      return make_statistics_visit(context, visit);
    case VisitKind::kNeurons:
      return make_neurons_visit(context, visit);
  }
  return fail("no such visit");
}

}  // namespace neuronmm::compress
