#pragma once
// What narrowing one MLP really costs the model, in the place of what predicted_loss.h says of it:
// one layer at a time, the mean over held-out tokens of KL(dense ‖ the model with this layer alone
// narrowed), nats.
//
// A measurement runs the layers behind the change and the vocabulary, so that all layers cost half
// as many passes over the held-out tokens as there are layers, and an evaluation of the vocabulary
// each. Of a whole layer, not of its input, neurons and output one by one, which is up to three
// times as much; whether that would choose better is open: on the bundled model, decided on text
// that was calibrated on, both chose alike. Measured on SmolLM2, form mixed, KL on
// WikiText-2 and C4, and what predicted sizes have: a tenth of the parameters gone .076 and .109
// (.120, .127), a fifth .200 and .277 (.243, .285), three tenths .388 and .475 (.382, .464), half
// .814 and .935 (.738, .852): where much goes, losses of single layers no longer add up, and
// shape_choice.h keeps the predicted sizes. Factors to a power below one, a second round at the
// corrected sizes, and rounds that make one layer of the narrowed model whole again chose no better
// (docs/quality.md).

#include <filesystem>
#include <functional>
#include <vector>

#include "compress/dense_reference.h"
#include "compress/predicted_loss.h"

namespace neuronmm::compress {

struct MeasureRequest {
  std::vector<io::MlpShape> shapes;  // per layer
  // Makes all MLPs of these shapes, before the dense model is in memory: a layer's Gram matrices
  // are gigabytes of a large model, and so is the dense one. Not called where all is measured.
  std::function<Status()> narrow;
  WithMlp narrowed;
};
// Per layer; 0 where the whole layer is kept. Leaves a checked file per layer in `work` and skips
// layers whose file is there. Asks interrupted() between layers.
Result<std::vector<double>> measure_losses(const CompressionInputs& inputs,
                                           const MeasureRequest& request,
                                           const std::filesystem::path& work);

// Scales all curves of a layer so that its shape costs what was measured. Layers that are whole get
// the geometric mean of the others' factors.
void correct_losses(const std::vector<io::MlpShape>& shapes, const std::vector<double>& measured,
                    std::vector<PredictedLosses>& losses);

}  // namespace neuronmm::compress
