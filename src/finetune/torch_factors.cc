#include "finetune/torch_factors.h"

namespace neuronmm::finetune {
namespace {

// Visits the matrices of one linear layer. `narrower` says that a dense matrix is a factor, because
// its MLP has fewer neurons or pivots in front of it. `part` is the role of such a matrix.
void visit_matrix(TorchLinear& linear, bool narrower, Part part, bool all_matrices,
                  const VisitFactor& body) {
  if (linear.low_rank()) {
    body(linear.u, Part::kU);
    body(linear.v, Part::kV);
  } else if (!linear.in.empty()) {
    body(linear.in.map, Part::kU);
    body(linear.w, Part::kV);
  } else if (!linear.out.empty()) {
    body(linear.w, Part::kU);
    body(linear.out.map, Part::kV);
  } else if (narrower) {
    body(linear.w, part);
  } else if (all_matrices) {
    body(linear.w, Part::kAll);
  }
}

}  // namespace

// With pivots that gate and up share, gate and up are the second factors. With fewer neurons all
// three matrices are dense: gate and up are the first factors, and down is the second.
void for_each_factor(TorchLayer& layer, const VisitFactor& body) {
  if (layer.all_matrices) {
    for (TorchLinear* const linear : {&layer.q, &layer.k, &layer.v, &layer.o}) {
      body(linear->w, Part::kAll);
    }
  }
  const bool shared = !layer.mlp_in.empty();
  if (shared) body(layer.mlp_in.map, Part::kU);
  for (TorchLinear* const linear : {&layer.gate, &layer.up}) {
    visit_matrix(*linear, shared || layer.fewer_neurons, shared ? Part::kV : Part::kU,
                 layer.all_matrices, body);
  }
  visit_matrix(layer.down, layer.fewer_neurons, Part::kV, layer.all_matrices, body);
}

void for_each_factor(TorchTransformer& model, const VisitFactor& body) {
  for (TorchLayer& layer : model.layers()) for_each_factor(layer, body);
}

}  // namespace neuronmm::finetune
