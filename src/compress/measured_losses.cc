#include "compress/measured_losses.h"

#include <cmath>
#include <optional>

#include "base/interrupt.h"
#include "compress/measured_file.h"
#include "compress/narrow_weights.h"
#include "compress/shape_search.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

fs::path measured_path(const fs::path& work, int64_t layer) {
  return work / fmt::format("measured-{:05}.safetensors", layer);
}

Result<double> measure_layer(const CompressionInputs& inputs, const MeasureRequest& request,
                             const DenseReference& reference, int64_t layer) {
  NMM_ASSIGN(const KnownMlp known, request.know(layer));
  NMM_ASSIGN(const NarrowMlp mlp,
             narrow_mlp(known.mlp, known.statistics, known.metric, known.order,
                        request.shapes[static_cast<size_t>(layer)], DType::kF32));
  const NarrowWeights held(mlp, DType::kF32);
  const double measured = reference.divergence_with(layer, held.mlp());
  if (std::isfinite(measured)) return measured;
  return fail("{}: the model makes NaN or infinity of the calibration text",
              inputs.checkpoint.folder().string());
}

// 0 where there is none: a loss that is predicted or measured to be nothing tells of no other size.
double factor_of(double predicted, double measured) {
  return predicted > 0.0 && measured > 0.0 ? measured / predicted : 0.0;
}

}  // namespace

Result<std::vector<double>> measure_losses(const CompressionInputs& inputs,
                                           const MeasureRequest& request, const fs::path& work) {
  std::optional<DenseReference> reference;  // made when the first layer needs it
  std::vector<double> measured(request.shapes.size());
  inputs.progress.start("measuring losses", std::ssize(measured));
  for (int64_t layer = 0; layer < std::ssize(measured); ++layer) {
    const auto at = static_cast<size_t>(layer);
    if (request.shapes[at] == io::MlpShape{}) continue;
    const fs::path path = measured_path(work, layer);
    if (const auto saved = read_measured(path)) {
      measured[at] = *saved;
    } else {
      if (interrupted()) {
        return interrupted_error(fmt::format(
            "losses of {} of {} layers are measured and kept in {}; run the same command again to "
            "go on",
            layer, measured.size(), work.parent_path().string()));
      }
      if (!reference) {
        NMM_ASSIGN(reference, DenseReference::run(inputs, inputs.text->held_out));
      }
      NMM_ASSIGN(measured[at], measure_layer(inputs, request, *reference, layer));
      NMM_TRY(save_measured(path, measured[at]));
    }
    inputs.progress.update(layer + 1, fmt::format("layer {}", layer));
  }
  inputs.progress.finish();
  return measured;
}

void correct_losses(const std::vector<io::MlpShape>& shapes, const std::vector<double>& measured,
                    std::vector<PredictedLosses>& losses) {
  std::vector<double> factors;
  double sum = 0.0, count = 0.0;
  for (size_t layer = 0; layer < losses.size(); ++layer) {
    factors.push_back(factor_of(loss_of(losses[layer], shapes[layer]), measured[layer]));
    if (factors.back() == 0.0) continue;
    sum += std::log(factors.back());
    ++count;
  }
  const double mean = count > 0.0 ? std::exp(sum / count) : 1.0;
  for (size_t layer = 0; layer < losses.size(); ++layer) {
    const double factor = factors[layer] > 0.0 ? factors[layer] : mean;
    PredictedLosses& curves = losses[layer];
    for (auto* curve : {&curves.gate, &curves.up, &curves.input, &curves.output, &curves.neurons}) {
      for (double& value : *curve) value *= factor;
    }
  }
}

}  // namespace neuronmm::compress
