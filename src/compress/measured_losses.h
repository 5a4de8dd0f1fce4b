#pragma once
// What narrowing one side of one MLP (its input, neurons, output, ...) really costs the model, in
// the place of what predicted_loss.h says of it: one change at a time, the mean over held-out
// tokens of KL(dense ‖ the model with this side alone narrowed), nats.
//
// A measurement runs the layers behind the change and the vocabulary, so that all sides of all
// layers cost about half as many passes over the held-out tokens as there are sides.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "compress/dense_reference.h"
#include "compress/predicted_loss.h"
#include "compress/shape_pass.h"

namespace neuronmm::compress {

struct SideLoss {
  io::MlpShape shape;  // one number; the others are whole
  double predicted = 0.0, measured = 0.0;
};
using MeasuredLayers = std::vector<std::vector<SideLoss>>;  // of every layer, its narrowed sides

struct SideRequest {
  std::vector<io::MlpShape> shapes;  // per layer
  std::function<Result<KnownMlp>(int64_t layer)> know;
  std::string name;  // of this round's files in the work folder
};
// Leaves a checked file per layer in `work` and skips layers whose file is there. An interrupt ends
// it between two sides.
Result<MeasuredLayers> measure_sides(const CompressionInputs& inputs, const SideRequest& request,
                                     const std::vector<PredictedLosses>& losses,
                                     const std::filesystem::path& work);

// Scales every curve so that it passes through what was measured. Sides that were whole get the
// geometric mean of their kind's factors, or where none of the kind was measured of all.
void correct_losses(const MeasuredLayers& measured, std::vector<PredictedLosses>& losses);

}  // namespace neuronmm::compress
