#pragma once
// Finds the sizes of every MLP with the least predicted loss within a number of parameters.
// shape_choice.h and `fit` use it.
//
// The losses of different layers, and of the input, the neurons and the output of one layer, are
// assumed to add up. With a price per parameter each layer can then choose alone. For a fixed
// number of neurons, input and output also choose alone. Bisection finds the price at which the
// parameters fit. The rest of the budget is spent on the best single steps.

#include <vector>

#include "compress/sizes/form.h"
#include "compress/sizes/predicted_loss.h"

namespace neuronmm::compress {

// The result of a search.
struct FoundShapes {
  std::vector<io::MlpShape> shapes;  // one per layer
  int64_t parameters = 0;            // of all MLPs, at most the budget
  double predicted_loss = 0.0;       // nats per token
};

// Returns what the shape is predicted to cost, in nats per token.
double loss_of(const PredictedLosses& losses, const io::MlpShape& shape);
// Returns the part of that loss that comes from the narrower inputs of gate and up, shared or
// separate.
double input_loss_of(const PredictedLosses& losses, const io::MlpShape& shape);

// Finds shapes for all layers. Sizes are multiples of `block`, or whole. `form` may be any but
// auto. Fails if even the smallest sizes, one block each, exceed the budget.
Result<FoundShapes> find_shapes(Form form, const MlpSizes& sizes, int64_t block,
                                const std::vector<PredictedLosses>& layers, int64_t budget);

// Returns the shapes of one layer that are best at some price per parameter, from whole to
// smallest.
std::vector<io::MlpShape> hull_shapes(Form form, const MlpSizes& sizes, int64_t block,
                                      const PredictedLosses& losses);

}  // namespace neuronmm::compress
