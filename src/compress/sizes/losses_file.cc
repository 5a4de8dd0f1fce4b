#include "compress/sizes/losses_file.h"

#include <cstring>
#include <system_error>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOrderName = "order";

// The name of a curve in the file, where it is in PredictedLosses, and its size.
struct LossCurve {
  const char* name;
  std::vector<double> PredictedLosses::*values;
  int64_t io::ModelConfig::*sizes;  // the curve has one entry more than this
};
constexpr LossCurve kLossCurves[] = {
    {"gate", &PredictedLosses::gate, &io::ModelConfig::hidden_size},
    {"up", &PredictedLosses::up, &io::ModelConfig::hidden_size},
    {"input", &PredictedLosses::input, &io::ModelConfig::hidden_size},
    {"output", &PredictedLosses::output, &io::ModelConfig::hidden_size},
    {"neurons", &PredictedLosses::neurons, &io::ModelConfig::intermediate_size}};

// Returns the tensor if it has this dtype and size, otherwise null.
const TensorView* tensor_of(const io::SafetensorsFile& file, const char* name, DType dtype,
                            int64_t size) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) return nullptr;
  const TensorView& tensor = found->second;
  return tensor.dtype == dtype && tensor.shape == Shape{size} ? &tensor : nullptr;
}

// Returns whether `order` has every neuron exactly once.
bool is_order(const std::vector<int32_t>& order) {
  std::vector<bool> seen(order.size());
  for (const int32_t i : order) {
    if (i < 0 || static_cast<size_t>(i) >= order.size() || seen[static_cast<size_t>(i)]) {
      return false;
    }
    seen[static_cast<size_t>(i)] = true;
  }
  return true;
}

}  // namespace

fs::path losses_path(const fs::path& folder, int64_t layer) {
  return folder / fmt::format("losses-{:05}.safetensors", layer);
}

Status save_losses(const fs::path& folder, int64_t layer, const PredictedLosses& losses) {
  std::vector<io::TensorSpec> specs;
  for (const LossCurve& curve : kLossCurves) {
    specs.push_back({curve.name, DType::kF64, {std::ssize(losses.*curve.values)}});
  }
  specs.push_back({kOrderName, DType::kI32, {std::ssize(losses.order)}});
  NMM_ASSIGN(auto writer,
             io::SafetensorsWriter::create_checked(losses_path(folder, layer), specs, {}));
  for (const LossCurve& curve : kLossCurves) {
    NMM_TRY(writer.append(std::as_bytes(std::span(losses.*curve.values))));
  }
  NMM_TRY(writer.append(std::as_bytes(std::span(losses.order))));
  return writer.finish();
}

std::optional<PredictedLosses> read_losses(const fs::path& folder, int64_t layer,
                                           const io::ModelConfig& config) {
  const fs::path path = losses_path(folder, layer);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  const auto file = io::SafetensorsFile::open_checked(path);
  if (!file.ok()) return std::nullopt;
  PredictedLosses losses;
  for (const LossCurve& curve : kLossCurves) {
    const TensorView* tensor = tensor_of(*file, curve.name, DType::kF64, config.*curve.sizes + 1);
    if (tensor == nullptr) return std::nullopt;
    auto& values = losses.*curve.values;
    values.resize(static_cast<size_t>(tensor->size()));
    to_doubles(*tensor, 0, tensor->size(), values.data());
  }
  const TensorView* order = tensor_of(*file, kOrderName, DType::kI32, config.intermediate_size);
  if (order == nullptr) return std::nullopt;
  losses.order.resize(static_cast<size_t>(order->size()));
  std::memcpy(losses.order.data(), order->data, losses.order.size() * sizeof(int32_t));
  if (!is_order(losses.order)) return std::nullopt;
  return losses;
}

}  // namespace neuronmm::compress
