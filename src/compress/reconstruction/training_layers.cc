#include "compress/reconstruction/training_layers.h"

#include <cstdlib>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/layer_weights.h"

namespace neuronmm::compress {
namespace {

// The keys of the outcome in a file's metadata.
constexpr const char *kBeforeKey = "before", *kAfterKey = "after", *kPassesKey = "passes",
                     *kSkippedKey = "skipped", *kSecondsKey = "seconds";

using Parameter = training::Parameter<float>;

// Returns the values of a parameter in the dtype of its tensor.
std::vector<std::byte> stored_bytes(const io::Checkpoint& checkpoint, const Parameter& parameter) {
  const DType dtype = written_dtype(checkpoint.tensors().at(parameter.name).dtype);
  std::vector<std::byte> bytes;
  append_rounded(dtype, parameter.value.data(), parameter.size(), bytes);
  return bytes;
}

bool has_shape(const TensorView& tensor, const Parameter& parameter) {
  const Shape shape =
      parameter.rows == 1 ? Shape{parameter.columns} : Shape{parameter.rows, parameter.columns};
  return tensor.shape == shape || tensor.shape == Shape{parameter.rows, parameter.columns};
}

std::optional<LayerOutcome> outcome_of(const std::map<std::string, std::string>& metadata) {
  for (const char* const key : {kBeforeKey, kAfterKey, kPassesKey, kSkippedKey, kSecondsKey}) {
    if (!metadata.contains(key)) return std::nullopt;
  }
  const auto number = [&](const char* key) {
    return std::strtod(metadata.at(key).c_str(), nullptr);
  };
  return LayerOutcome{number(kBeforeKey), number(kAfterKey),
                      static_cast<int64_t>(number(kPassesKey)),
                      static_cast<int64_t>(number(kSkippedKey)), number(kSecondsKey)};
}

}  // namespace

LayerReader::LayerReader(const io::Checkpoint& checkpoint, const io::ModelConfig& config)
    : checkpoint_(checkpoint),
      config_(config),
      prefix_(model::tensor_prefix(checkpoint)),
      angles_(config) {}

Result<std::unique_ptr<TrainingLayer>> LayerReader::read(int64_t layer) {
  NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, layer));
  auto read = std::make_unique<TrainingLayer>(config_, weights,
                                              fmt::format("{}layers.{}.", prefix_, layer), angles_);
  checkpoint_.release_pages();
  return read;
}

void round_as_stored(const io::Checkpoint& checkpoint, TrainingLayer& layer) {
  layer.for_each_parameter([&](Parameter& parameter) {
    const TensorView& tensor = checkpoint.tensors().at(parameter.name);
    const auto bytes = stored_bytes(checkpoint, parameter);
    const TensorView rounded = {written_dtype(tensor.dtype), {parameter.size()}, bytes.data()};
    to_floats(rounded, 0, parameter.size(), parameter.value.data());
    parameter.changed();
  });
}

std::filesystem::path reconstructed_path(const std::filesystem::path& work, int64_t layer) {
  return work / fmt::format("reconstructed-{:05}.safetensors", layer);
}

Status write_reconstructed(const std::filesystem::path& path, const io::Checkpoint& checkpoint,
                           TrainingLayer& layer, const LayerOutcome& outcome) {
  std::vector<io::TensorSpec> specs;
  layer.for_each_parameter([&](Parameter& parameter) {
    const TensorView& tensor = checkpoint.tensors().at(parameter.name);
    specs.push_back({parameter.name, written_dtype(tensor.dtype), tensor.shape});
  });
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              path, specs,
                              {{kBeforeKey, fmt::format("{}", outcome.before)},
                               {kAfterKey, fmt::format("{}", outcome.after)},
                               {kPassesKey, fmt::format("{}", outcome.passes)},
                               {kSkippedKey, fmt::format("{}", outcome.skipped)},
                               {kSecondsKey, fmt::format("{}", outcome.seconds)}}));
  Status written;
  layer.for_each_parameter([&](Parameter& parameter) {
    if (written.ok()) written = writer.append(stored_bytes(checkpoint, parameter));
  });
  NMM_TRY(written);
  return writer.finish();
}

std::optional<LayerOutcome> read_reconstructed(const std::filesystem::path& path,
                                               TrainingLayer& layer) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const auto file = io::SafetensorsFile::open_checked(path);
  if (!file.ok()) return std::nullopt;
  const auto outcome = outcome_of(file->metadata());
  bool fits = outcome.has_value();
  layer.for_each_parameter([&](Parameter& parameter) {
    const auto found = file->tensors().find(parameter.name);
    fits = fits && found != file->tensors().end() && has_shape(found->second, parameter);
  });
  if (!fits) return std::nullopt;
  layer.for_each_parameter([&](Parameter& parameter) {
    to_floats(file->tensors().at(parameter.name), 0, parameter.size(), parameter.value.data());
    parameter.changed();
  });
  return outcome;
}

}  // namespace neuronmm::compress
