#include "compress/sizes/shaped_model.h"

#include <algorithm>
#include <utility>

#include "compress/sizes/predicted_curves.h"

namespace neuronmm::compress {

std::vector<io::MlpShape> ShapedModel::shapes() const {
  std::vector<io::MlpShape> shapes;
  for (const LayerReport& layer : layers) shapes.push_back(layer.shape);
  return shapes;
}

double ShapedModel::predicted_loss() const {
  double sum = 0.0;
  for (const LayerReport& layer : layers) sum += layer.predicted_loss;
  return sum;
}

std::string size_choice_text(const SizeChoice& choice) {
  const auto [taken, other] = choice.uses_measured() ? std::pair("measured", "predicted")
                                                     : std::pair("predicted", "measured");
  const auto [least, most] = std::minmax(choice.measured, choice.predicted);
  return fmt::format("by {} losses, KL {:.3g} on {} where those by {} ones have {:.3g}", taken,
                     least, choice.held_out ? "held-out tokens" : "the calibration text", other,
                     most);
}

NarrowRequest narrow_request(const ShapeRequest& request, const ShapedModel& model,
                             const io::ModelConfig& config) {
  return {.files = request.files,
          .shapes = model.shapes(),
          .weights = request.weights,
          .pivots_as_factors = model.form == Form::kUv,
          .padded = model.padded,
          .order = [files = request.files, &config](int64_t layer) {
            return neuron_order_of(files, layer, config);
          }};
}

}  // namespace neuronmm::compress
