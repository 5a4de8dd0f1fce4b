#include "compress/measured_losses.h"

#include <cmath>
#include <system_error>

#include "base/interrupt.h"
#include "compress/narrow_weights.h"
#include "compress/shape_search.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

struct SideCurve {
  int64_t io::MlpShape::*size;
  std::vector<double> PredictedLosses::*losses;
};
constexpr SideCurve kSides[] = {{&io::MlpShape::gate, &PredictedLosses::gate},
                                {&io::MlpShape::up, &PredictedLosses::up},
                                {&io::MlpShape::input, &PredictedLosses::input},
                                {&io::MlpShape::down, &PredictedLosses::output},
                                {&io::MlpShape::neurons, &PredictedLosses::neurons}};

std::vector<SideLoss> sides_of(const io::MlpShape& shape, const PredictedLosses& losses) {
  std::vector<SideLoss> sides;
  for (const SideCurve& side : kSides) {
    if (shape.*side.size == 0) continue;
    SideLoss& loss = sides.emplace_back();
    loss.shape.*side.size = shape.*side.size;
    loss.predicted = loss_of(losses, loss.shape);
  }
  return sides;
}

Status save_sides(const fs::path& path, const std::vector<SideLoss>& sides) {
  std::vector<double> values;
  for (const SideLoss& side : sides) values.push_back(side.measured);
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              path, {{"measured", DType::kF64, {std::ssize(values)}}}, {}));
  NMM_TRY(writer.append(std::as_bytes(std::span(values))));
  return writer.finish();
}

// Whether a whole file with this layer's sides lies there; fills in what was measured.
bool load_sides(const fs::path& path, std::vector<SideLoss>& sides) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return false;
  const auto file = io::SafetensorsFile::open_checked(path);
  if (!file.ok()) return false;
  const auto found = file->tensors().find("measured");
  if (found == file->tensors().end() || found->second.dtype != DType::kF64 ||
      found->second.shape != Shape{std::ssize(sides)}) {
    return false;
  }
  std::vector<double> values(sides.size());
  to_doubles(found->second, 0, std::ssize(values), values.data());
  for (size_t i = 0; i < sides.size(); ++i) sides[i].measured = values[i];
  return true;
}

class SideMeasurement {
 public:
  SideMeasurement(const CompressionInputs& inputs, const SideRequest& request)
      : inputs_(inputs), request_(request) {}

  Status measure(int64_t layer, std::vector<SideLoss>& sides) {
    if (sides.empty()) return {};
    if (!reference_) {
      NMM_ASSIGN(reference_, DenseReference::run(inputs_, inputs_.text->held_out));
    }
    NMM_ASSIGN(const KnownMlp known, request_.know(layer));
    for (SideLoss& side : sides) {
      if (interrupted()) {
        return interrupted_error(
            "layers that were measured are kept; run the same command again to go on");
      }
      NMM_ASSIGN(const NarrowMlp mlp, narrow_mlp(known.mlp, known.statistics, known.metric,
                                                 known.order, side.shape, DType::kF32));
      const NarrowWeights held(mlp, DType::kF32);
      side.measured = reference_->divergence_with(layer, held.mlp());
      if (!std::isfinite(side.measured)) {
        return fail("{}: the model makes NaN or infinity of the calibration text",
                    inputs_.checkpoint.folder().string());
      }
    }
    return {};
  }

 private:
  const CompressionInputs& inputs_;
  const SideRequest& request_;
  std::optional<DenseReference> reference_;  // made when the first layer needs it
};

// The mean of logarithms of factors.
struct MeanFactor {
  double sum = 0.0;
  int64_t count = 0;

  void add(double factor) {
    sum += std::log(factor);
    ++count;
  }
  double value() const { return count > 0 ? std::exp(sum / static_cast<double>(count)) : 1.0; }
};

// 0 where there is none: a loss that is predicted or measured to be nothing tells of no other size.
double factor_of(const SideLoss& loss) {
  return loss.predicted > 0.0 && loss.measured > 0.0 ? loss.measured / loss.predicted : 0.0;
}

}  // namespace

Result<MeasuredLayers> measure_sides(const CompressionInputs& inputs, const SideRequest& request,
                                     const std::vector<PredictedLosses>& losses,
                                     const fs::path& work) {
  MeasuredLayers measured;
  SideMeasurement measurement(inputs, request);
  const int64_t layers = std::ssize(request.shapes);
  inputs.progress.start("measuring losses", layers);
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto at = static_cast<size_t>(layer);
    auto& sides = measured.emplace_back(sides_of(request.shapes[at], losses[at]));
    const fs::path path = work / fmt::format("{}-{:05}.safetensors", request.name, layer);
    if (!load_sides(path, sides)) {
      NMM_TRY(measurement.measure(layer, sides));
      NMM_TRY(save_sides(path, sides));
    }
    inputs.progress.update(layer + 1, fmt::format("layer {}", layer));
  }
  inputs.progress.finish();
  return measured;
}

void correct_losses(const MeasuredLayers& measured, std::vector<PredictedLosses>& losses) {
  MeanFactor all;
  MeanFactor of_kind[std::size(kSides)];
  std::vector<std::array<double, std::size(kSides)>> factors(measured.size());
  for (size_t layer = 0; layer < measured.size(); ++layer) {
    for (const SideLoss& loss : measured[layer]) {
      const double factor = factor_of(loss);
      for (size_t kind = 0; factor > 0.0 && kind < std::size(kSides); ++kind) {
        if (loss.shape.*kSides[kind].size == 0) continue;
        factors[layer][kind] = factor;
        of_kind[kind].add(factor);
        all.add(factor);
      }
    }
  }
  for (size_t layer = 0; layer < losses.size(); ++layer) {
    for (size_t kind = 0; kind < std::size(kSides); ++kind) {
      const MeanFactor& mean = of_kind[kind].count > 0 ? of_kind[kind] : all;
      const double own = factors[layer][kind], factor = own > 0.0 ? own : mean.value();
      for (double& value : losses[layer].*kSides[kind].losses) value *= factor;
    }
  }
}

}  // namespace neuronmm::compress
