#pragma once
// Measures what narrowing one MLP costs the model, in order to correct the predictions of
// predicted_loss.h. For one layer at a time the loss is the mean over held-out tokens of KL(dense ‖
// the model with this layer alone narrowed), in nats. shape_choice.h is the caller.
//
// A measurement runs only the layers after the change and the LM head. All layers together
// therefore cost half as many passes over the held-out tokens as there are layers, and one
// evaluation of the LM head each. A layer is measured as a whole. Measuring its input, neurons and
// output separately would cost up to three times as much, and it is not known whether it would
// choose better.
//
// The corrected sizes are better as long as little is removed. Where much is removed, the losses of
// single layers no longer add up, and shape_choice.h keeps the predicted sizes (measured,
// docs/measurements/quality.md). The same page lists variants that chose no better.

#include <filesystem>
#include <functional>
#include <vector>

#include "compress/sizes/dense_reference.h"
#include "compress/sizes/predicted_loss.h"

namespace neuronmm::compress {

// The shapes to measure, and how to get MLPs of these shapes.
struct MeasureRequest {
  std::vector<io::MlpShape> shapes;  // one per layer
  // Makes the MLPs of all layers. This runs before the dense model is in memory, because both the
  // Gram matrices of a layer and the dense model can take gigabytes. It is not called if everything
  // is measured.
  std::function<Status()> narrow;
  WithMlp narrowed;
};
// Returns the measured loss of each layer, or 0 for a layer that stays whole. Writes a file per
// layer to `work` and skips layers whose file is there. An interrupt is noticed between layers.
// Fails if the model makes NaN or infinity of the text.
Result<std::vector<double>> measure_losses(const CompressionInputs& inputs,
                                           const MeasureRequest& request,
                                           const std::filesystem::path& work);

// Scales all curves of each layer so that the loss at the layer's shape is the measured one. Layers
// that stay whole get the geometric mean of the other layers' factors.
void correct_losses(const std::vector<io::MlpShape>& shapes, const std::vector<double>& measured,
                    std::vector<PredictedLosses>& losses);

}  // namespace neuronmm::compress
