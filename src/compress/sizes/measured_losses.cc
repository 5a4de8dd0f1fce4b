#include "compress/sizes/measured_losses.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "base/freed_memory.h"
#include "base/interrupt.h"
#include "base/task_labels.h"
#include "compress/sizes/measured_file.h"
#include "compress/sizes/shape_search.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

fs::path measured_path(const fs::path& work, int64_t layer) {
  return work / fmt::format("measured-{:05}.safetensors", layer);
}

// Returns the layers that are not measured yet. Layers that stay whole need no measurement.
std::vector<int64_t> unmeasured_layers(const MeasureRequest& request, const fs::path& work) {
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < std::ssize(request.shapes); ++layer) {
    if (request.shapes[static_cast<size_t>(layer)] == io::MlpShape{}) continue;
    if (!read_measured(measured_path(work, layer))) layers.push_back(layer);
  }
  return layers;
}

// Measures one layer and writes its file.
Status measure_layer(const CompressionInputs& inputs, const MeasureRequest& request,
                     const fs::path& work, const DenseReference& reference, int64_t layer) {
  double measured = 0.0;
  NMM_TRY(request.narrowed(
      layer, [&](const ops::MlpWeight& mlp) { measured = reference.divergence_with(layer, mlp); }));
  if (!std::isfinite(measured)) {
    return fail("{}: the model makes NaN or infinity of the calibration text",
                inputs.checkpoint.folder().string());
  }
  return save_measured(measured_path(work, layer), measured);
}

// Narrows the MLPs, runs the dense model, and measures `layers`.
Status measure_layers(const CompressionInputs& inputs, const MeasureRequest& request,
                      const fs::path& work, const std::vector<int64_t>& layers) {
  const int64_t all = std::ssize(request.shapes);
  NMM_TRY(request.narrow());
  return_freed_memory();
  NMM_ASSIGN(const auto reference, DenseReference::run(inputs, inputs.text->held_out));
  int64_t done = all - std::ssize(layers);
  const bool resumed = std::ranges::any_of(std::views::iota(int64_t{0}, all), [&](int64_t layer) {
    return read_measured(measured_path(work, layer)).has_value();
  });
  if (resumed) {
    inputs.progress.print(std::string(task::kMeasuringLosses) + ": " +
                          found_text(done, all, "layer", "layers"));
  }
  inputs.progress.start(task::kMeasuringLosses, all, done);
  for (const int64_t layer : layers) {
    if (interrupted()) {
      return interrupted_error(
          fmt::format("the losses of {} of {} layers are measured", done, all));
    }
    NMM_TRY(measure_layer(inputs, request, work, reference, layer));
    inputs.progress.update(++done, fmt::format("layer {}", layer));
  }
  inputs.progress.finish();
  return {};
}

// Returns measured / predicted. Returns 0 if either loss is 0, because such a loss says nothing
// about other sizes.
double factor_of(double predicted, double measured) {
  return predicted > 0.0 && measured > 0.0 ? measured / predicted : 0.0;
}

}  // namespace

Result<std::vector<double>> measure_losses(const CompressionInputs& inputs,
                                           const MeasureRequest& request, const fs::path& work) {
  const std::vector<int64_t> layers = unmeasured_layers(request, work);
  if (!layers.empty()) NMM_TRY(measure_layers(inputs, request, work, layers));
  std::vector<double> measured(request.shapes.size());
  for (size_t layer = 0; layer < measured.size(); ++layer) {
    if (request.shapes[layer] == io::MlpShape{}) continue;
    const fs::path path = measured_path(work, static_cast<int64_t>(layer));
    const auto saved = read_measured(path);
    if (!saved) return fail("{}: cannot be read", path.string());
    measured[layer] = *saved;
  }
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
    for (const auto curve : kPredictedCurves) {
      for (double& value : losses[layer].*curve) value *= factor;
    }
  }
}

}  // namespace neuronmm::compress
