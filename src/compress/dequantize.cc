#include "compress/dequantize.h"

#include <algorithm>
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "compress/output/rank_record.h"
#include "compress/output/tensor_writer.h"
#include "compress/output/transformers_code.h"
#include "io/checkpoint.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/model_folder.h"
#include "io/quantization.h"
#include "io/text_file.h"
#include "io/transformers_config.h"
#include "model/tensor_specs.h"
#include "model/transformer.h"
#include "model/weight_reader.h"
#include "ops/weights.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPieceElements = int64_t{1} << 22;  // floats in memory at once, 16 MiB

// Returns the shapes [rows, columns] of the values of all rounded tensors of `config`, by their
// names in `checkpoint`. The stored shape does not tell the number of columns if values have few
// bits.
std::map<std::string, Shape> rounded_shapes(const io::Checkpoint& checkpoint,
                                            const io::ModelConfig& config) {
  const std::string written = "model.", prefix = model::tensor_prefix(checkpoint);
  std::map<std::string, Shape> shapes;
  for (const io::TensorSpec& spec : model::tensor_specs(config)) {
    const std::string name =
        spec.name.starts_with(written) ? prefix + spec.name.substr(written.size()) : spec.name;
    const bool rounded = config.quantization &&
                         model::rounding_of(spec.name, config, *config.quantization).has_value();
    if (rounded && checkpoint.has(name)) shapes[name] = spec.shape;
  }
  return shapes;
}

// Returns whether `name` holds the scales or groups of a rounded tensor.
bool belongs_to_rounded(const std::string& name, const std::map<std::string, Shape>& rounded) {
  return std::ranges::any_of(std::vector<std::string>{io::kScaleEnding, io::kGroupEnding},
                             [&](const std::string& ending) {
                               return name.ends_with(ending) &&
                                      rounded.contains(name.substr(0, name.size() - ending.size()));
                             });
}

// Passes the values of a rounded weight to `use`, some rows at a time, in fp32.
Status visit_floats(const io::Checkpoint& checkpoint, const ops::WeightView& weight,
                    const TensorSource::Use& use) {
  const int64_t columns = weight.columns();
  const int64_t step = std::max<int64_t>(1, kPieceElements / columns);
  std::vector<float> rows;
  for (int64_t first = 0; first < weight.rows(); first += step) {
    const int64_t count = std::min(step, weight.rows() - first);
    rows.resize(static_cast<size_t>(count * columns));
    for (int64_t i = 0; i < count; ++i) {
      to_floats(weight, (first + i) * columns, columns, rows.data() + i * columns);
    }
    NMM_TRY(use({DType::kF32, {count, columns}, reinterpret_cast<const std::byte*>(rows.data())}));
  }
  checkpoint.release_pages();
  return {};
}

// Passes a tensor that is not rounded in a format of ours to `use`, in fp32. Such tensors are
// norms, biases, an embedding table that is not tied to the LM head, and codes of another program.
Status visit_kept(const io::Checkpoint& checkpoint, const TensorView& tensor,
                  const TensorSource::Use& use) {
  if (tensor.shape.size() == 2) return visit_floats(checkpoint, tensor, use);
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  to_floats(tensor, 0, tensor.size(), values.data());
  return use({DType::kF32, tensor.shape, reinterpret_cast<const std::byte*>(values.data())});
}

// Lists the tensors of the new model.
Result<std::vector<TensorSource>> float_sources(const io::Checkpoint& checkpoint,
                                                const io::ModelConfig& config) {
  const auto rounded = rounded_shapes(checkpoint, config);
  std::vector<TensorSource> sources;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (belongs_to_rounded(name, rounded)) continue;
    TensorSource source = {.spec = {name, DType::kF32, tensor.shape}};
    if (const auto shape = rounded.find(name); shape != rounded.end()) {
      NMM_ASSIGN(const ops::WeightView weight,
                 model::require_weight(checkpoint, config, name, shape->second));
      source.spec.shape = shape->second;
      source.visit = [&checkpoint, weight](const TensorSource::Use& use) {
        return visit_floats(checkpoint, weight, use);
      };
      // Indices of pivots, and tensors that do not belong to the model.
    } else if (!is_float(tensor.dtype)) {
      source.spec.dtype = tensor.dtype;
      source.visit = [view = tensor](const TensorSource::Use& use) { return use(view); };
    } else {
      source.visit = [&checkpoint, view = tensor](const TensorSource::Use& use) {
        return visit_kept(checkpoint, view, use);
      };
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

int64_t bytes_of(const std::vector<TensorSource>& sources) {
  int64_t bytes = 0;
  for (const TensorSource& source : sources) bytes += io::size_bytes(source.spec);
  return bytes;
}

Status write_config(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                    const fs::path& folder) {
  const fs::path original = checkpoint.folder() / "config.json";
  NMM_ASSIGN(std::string text, io::config_text(checkpoint));
  NMM_ASSIGN(text, with_rank_record(std::move(text), checkpoint, config));
  NMM_ASSIGN(text, io::without_quantization(text, original.string()));
  NMM_ASSIGN(const auto written, io::ModelConfig::parse(text, original.string()));
  if (written.compression) return write_transformers_files(folder, text, original.string());
  NMM_ASSIGN(text, io::with_published_classes(text, original.string()));
  return io::write_text_file(folder / "config.json", text);
}

}  // namespace

Status dequantize(const fs::path& model, const fs::path& out, Progress& progress) {
  NMM_ASSIGN(const auto identity, io::folder_identity(model));
  NMM_ASSIGN(const auto config, io::ModelConfig::load(model / "config.json"));
  NMM_ASSIGN(const auto checkpoint, io::Checkpoint::open(model));
  if (!config.quantization && checkpoint.foreign_text().empty()) {
    return fail("{}: expected weights of 8, 6 or 4 bits, found floats", model.string());
  }
  NMM_TRY(io::check_agreement(config, checkpoint));
  NMM_ASSIGN(const auto sources, float_sources(checkpoint, config));
  NMM_ASSIGN(auto output, io::FolderWriter::create(out, io::FolderWriter::IfExists::kReplace, model,
                                                   io::FolderWriter::Resume::kNever));
  NMM_TRY(io::check_space(output.staging(), bytes_of(sources)));
  NMM_TRY(write_tensors(sources, config.architecture, output.staging(), progress));
  NMM_TRY(write_config(checkpoint, config, output.staging()));
  NMM_ASSIGN(const auto left_out, io::copy_model_files(model, output.staging()));
  for (const std::string& note : left_out) progress.print(note);
  NMM_TRY(io::check_unchanged(model, identity));
  return output.commit();
}

}  // namespace neuronmm::compress
