#pragma once
// Sizes for every MLP with the least predicted loss at a number of parameters.
//
// Losses of different layers, and of input, neurons and output of one layer, are taken to add up.
// With a price per parameter each layer then chooses alone, and with the number of neurons fixed,
// input and output choose alone; bisection finds the price at which the parameters fit. What is
// left of the budget then buys the best single steps.

#include <vector>

#include "compress/sizes/form.h"
#include "compress/sizes/predicted_loss.h"

namespace neuronmm::compress {

struct FoundShapes {
  std::vector<io::MlpShape> shapes;  // one per layer
  int64_t parameters = 0;            // of all MLPs, at most the budget
  double predicted_loss = 0.0;       // nats per token
};

// What the shape is predicted to cost.
double loss_of(const PredictedLosses& losses, const io::MlpShape& shape);
// Of that, what its inputs of gate and up cost, together or each.
double input_loss_of(const PredictedLosses& losses, const io::MlpShape& shape);

// Sizes are multiples of `block`, or whole. form: any but auto. Refused: a
// budget that the smallest sizes, one block each, exceed.
Result<FoundShapes> find_shapes(Form form, const MlpSizes& sizes, int64_t block,
                                const std::vector<PredictedLosses>& layers, int64_t budget);

// The shapes of one layer that some price per parameter chooses, from whole to smallest.
std::vector<io::MlpShape> hull_shapes(Form form, const MlpSizes& sizes, int64_t block,
                                      const PredictedLosses& losses);

}  // namespace neuronmm::compress
