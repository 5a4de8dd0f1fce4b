#include "compress/reconstruction/training_layers.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/layer_weights.h"
#include "model/tensor_specs.h"
#include "ops/quantize.h"
#include "ops/weights.h"
#include "training/written_values.h"

namespace neuronmm::compress {
namespace {

// The keys of the outcome in a file's metadata.
constexpr const char *kBeforeKey = "before", *kAfterKey = "after", *kPassesKey = "passes",
                     *kSkippedKey = "skipped", *kSecondsKey = "seconds";

using Parameter = training::Parameter<float>;
using Values = training::Rows<float>;

// Returns the values of a parameter in the dtype of its tensor.
std::vector<std::byte> stored_bytes(const io::Checkpoint& checkpoint, const Parameter& parameter) {
  const DType dtype = written_dtype(checkpoint.tensors().at(parameter.name).dtype);
  std::vector<std::byte> bytes;
  append_rounded(dtype, parameter.value.data(), parameter.size(), bytes);
  return bytes;
}

// Returns whether a file has the tensor of a float parameter.
bool has_floats(const io::SafetensorsFile& file, const Parameter& parameter) {
  const auto found = file.tensors().find(parameter.name);
  if (found == file.tensors().end()) return false;
  const Shape& shape = found->second.shape;
  return shape == Shape{parameter.rows, parameter.columns} ||
         (parameter.rows == 1 && shape == Shape{parameter.columns});
}

// Returns the rounded weight that a file has for a parameter, or an empty one if the file lacks one
// of its tensors.
ops::WeightView rounded_weight(const io::SafetensorsFile& file, const Parameter& parameter,
                               const LowBitFormat& format) {
  const Shape shape = {parameter.rows, parameter.columns};
  std::vector<TensorView> parts;
  for (const io::TensorSpec& spec :
       model::stored_specs({parameter.name, DType::kF32, shape}, format)) {
    const auto found = file.tensors().find(spec.name);
    if (found == file.tensors().end() || found->second.dtype != spec.dtype ||
        found->second.shape != spec.shape) {
      return {};
    }
    parts.push_back(found->second);
  }
  return {format, shape, parts[0].data, parts[1], parts.size() > 2 ? parts[2] : TensorView()};
}

// Calls visit(parameter, format) for the tensors of a layer that its file holds. Those with a
// format are rounded.
void for_each_stored(const LayerReader& reader, TrainingLayer& layer,
                     const std::function<void(Parameter&, std::optional<LowBitFormat>)>& visit) {
  layer.for_each_parameter([&](Parameter& parameter) {
    const auto format = reader.rounding_of(parameter.name);
    if (!format || reader.learns(parameter.name)) visit(parameter, format);
  });
}

Status append_weight(io::SafetensorsWriter& writer, const LayerReader& reader,
                     const Parameter& parameter) {
  NMM_ASSIGN(const auto grid, training::find_grid(parameter, reader.checkpoint(), reader.config(),
                                                  *reader.config().quantization));
  const ops::QuantizedWeight weight = grid->round(parameter.value);
  NMM_TRY(writer.append(std::as_bytes(std::span(weight.values))));
  NMM_TRY(writer.append(std::as_bytes(std::span(weight.scales))));
  return writer.append(std::as_bytes(std::span(weight.multipliers)));
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

LayerReader::LayerReader(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                         Originals originals)
    : checkpoint_(checkpoint),
      config_(config),
      originals_(std::move(originals)),
      prefix_(model::tensor_prefix(checkpoint)),
      angles_(config) {}

Result<std::unique_ptr<TrainingLayer>> LayerReader::read(int64_t layer) {
  NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, layer));
  auto read = std::make_unique<TrainingLayer>(config_, weights,
                                              fmt::format("{}layers.{}.", prefix_, layer), angles_);
  if (config_.quantization) NMM_TRY(round_products(*read));
  checkpoint_.release_pages();
  return read;
}

std::optional<LowBitFormat> LayerReader::rounding_of(const std::string& tensor) const {
  if (!config_.quantization) return std::nullopt;
  return model::rounding_of(tensor, config_, *config_.quantization);
}

bool LayerReader::learns(const std::string& tensor) const {
  const auto format = rounding_of(tensor);
  return !training::is_of_router(tensor) && (!format || format->bits < 8);
}

// A weight that stays is on its grid already. Its function says that products round their input.
Status LayerReader::round_products(TrainingLayer& layer) const {
  Status rounded;
  layer.for_each_parameter([&](Parameter& parameter) {
    if (!rounded.ok()) return;
    auto grid = training::find_grid(parameter, checkpoint_, config_, *config_.quantization);
    if (!grid.ok()) {
      rounded = grid.error();
    } else if (*grid && learns(parameter.name)) {
      if (originals_)
        parameter.value = (*grid)->near_floats(parameter.value, originals_(parameter.name));
      parameter.rounding = [kept = std::make_shared<training::KeptGrid>(**std::move(grid))](
                               const Values& values) { return kept->rounded(values); };
    } else if (*grid) {
      parameter.rounding = [](const Values& values) {
        return training::copy_of<float>(values.view());
      };
    }
  });
  return rounded;
}

void round_as_stored(const LayerReader& reader, TrainingLayer& layer) {
  layer.for_each_parameter([&](Parameter& parameter) {
    if (parameter.rounding) {
      parameter.value = parameter.rounding(parameter.value);
    } else {
      training::round_to(written_dtype(reader.checkpoint().tensors().at(parameter.name).dtype),
                         parameter.value);
    }
    parameter.changed();
  });
}

std::filesystem::path reconstructed_path(const std::filesystem::path& work, int64_t layer) {
  return work / fmt::format("reconstructed-{:05}.safetensors", layer);
}

Status write_reconstructed(const std::filesystem::path& path, const LayerReader& reader,
                           TrainingLayer& layer, const LayerOutcome& outcome) {
  const io::Checkpoint& checkpoint = reader.checkpoint();
  std::vector<io::TensorSpec> specs;
  for_each_stored(reader, layer, [&](const Parameter& parameter, const auto& format) {
    const TensorView& tensor = checkpoint.tensors().at(parameter.name);
    const Shape shape = format ? Shape{parameter.rows, parameter.columns} : tensor.shape;
    for (auto& spec :
         model::stored_specs({parameter.name, written_dtype(tensor.dtype), shape}, format)) {
      specs.push_back(std::move(spec));
    }
  });
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              path, specs,
                              {{kBeforeKey, fmt::format("{}", outcome.before)},
                               {kAfterKey, fmt::format("{}", outcome.after)},
                               {kPassesKey, fmt::format("{}", outcome.passes)},
                               {kSkippedKey, fmt::format("{}", outcome.skipped)},
                               {kSecondsKey, fmt::format("{}", outcome.seconds)}}));
  Status written;
  for_each_stored(reader, layer, [&](const Parameter& parameter, const auto& format) {
    if (!written.ok()) return;
    written = format ? append_weight(writer, reader, parameter)
                     : writer.append(stored_bytes(checkpoint, parameter));
  });
  NMM_TRY(written);
  return writer.finish();
}

std::optional<LayerOutcome> read_reconstructed(const std::filesystem::path& path,
                                               const LayerReader& reader, TrainingLayer& layer) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const auto file = io::SafetensorsFile::open_checked(path);
  if (!file.ok()) return std::nullopt;
  const auto outcome = outcome_of(file->metadata());
  bool fits = outcome.has_value();
  for_each_stored(reader, layer, [&](const Parameter& parameter, const auto& format) {
    fits = fits && (format ? !rounded_weight(*file, parameter, *format).empty()
                           : has_floats(*file, parameter));
  });
  if (!fits) return std::nullopt;
  for_each_stored(reader, layer, [&](Parameter& parameter, const auto& format) {
    if (format) {
      parameter.value = training::values_of(rounded_weight(*file, parameter, *format));
    } else {
      to_floats(file->tensors().at(parameter.name), 0, parameter.size(), parameter.value.data());
    }
    parameter.changed();
  });
  return outcome;
}

}  // namespace neuronmm::compress
