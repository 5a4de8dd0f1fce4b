#include "compress/dequantize.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "compress/output/fused_sources.h"
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

// Returns a source of the values of a weight in fp32.
TensorSource float_source(const io::Checkpoint& checkpoint, const std::string& name,
                          const ops::WeightView& weight) {
  return {.spec = {name, DType::kF32, weight.shape},
          .visit = [&checkpoint, weight](const TensorSource::Use& use) -> Status {
            NMM_TRY(visit_floats(weight, use));
            checkpoint.release_pages();
            return {};
          }};
}

// Lists the tensors of the new model under their canonical names.
Result<std::vector<TensorSource>> float_sources(const io::Checkpoint& checkpoint,
                                                const io::ModelConfig& config) {
  const auto rounded = rounded_shapes(checkpoint, config);
  std::vector<TensorSource> sources;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (belongs_to_rounded(name, rounded)) continue;
    if (const auto shape = rounded.find(name); shape != rounded.end()) {
      NMM_ASSIGN(const ops::WeightView weight,
                 model::require_weight(checkpoint, config, name, shape->second));
      sources.push_back(float_source(checkpoint, name, weight));
    } else if (is_float(tensor.dtype)) {
      // Norms, biases, an embedding table that is not tied to the LM head, and weights in formats
      // of other programs.
      sources.push_back(float_source(checkpoint, name, tensor));
    } else {
      // Indices of pivots, and tensors that do not belong to the model.
      sources.push_back(
          {.spec = {name, tensor.dtype, tensor.shape},
           .visit = [view = tensor](const TensorSource::Use& use) { return use(view); }});
    }
  }
  return sources;
}

int64_t bytes_of(const std::vector<TensorSource>& sources) {
  int64_t bytes = 0;
  for (const TensorSource& source : sources) bytes += io::size_bytes(source.spec);
  return bytes;
}

// Returns the config.json of the new model, which does not name its class yet.
Result<std::string> float_config(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                                 const std::string& original) {
  NMM_ASSIGN(std::string text, io::config_text(checkpoint));
  NMM_ASSIGN(text, with_rank_record(std::move(text), checkpoint, config));
  return io::without_quantization(text, original);
}

// Writes config.json, and the code of our classes if they load the model.
Status write_config(const std::string& text, bool compressed, const std::string& original,
                    const fs::path& folder) {
  if (compressed) return write_transformers_files(folder, text, original);
  NMM_ASSIGN(const std::string published, io::with_published_classes(text, original));
  return io::write_text_file(folder / "config.json", published);
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
  NMM_ASSIGN(auto sources, float_sources(checkpoint, config));
  const std::string original = (model / "config.json").string();
  NMM_ASSIGN(const std::string text, float_config(checkpoint, config, original));
  NMM_ASSIGN(const auto written, io::ModelConfig::parse(text, original));
  const bool compressed = written.compression.has_value();
  if (!compressed) sources = fused_sources(std::move(sources), config.architecture);
  NMM_ASSIGN(auto output, io::FolderWriter::create(out, io::FolderWriter::IfExists::kReplace, model,
                                                   io::FolderWriter::Resume::kNever));
  NMM_TRY(io::check_space(output.staging(), bytes_of(sources)));
  NMM_TRY(write_tensors(sources, config.architecture, output.staging(), progress));
  NMM_TRY(write_config(text, compressed, original, output.staging()));
  NMM_ASSIGN(const auto left_out, io::copy_model_files(model, output.staging()));
  for (const std::string& note : left_out) progress.print(note);
  NMM_TRY(io::check_unchanged(model, identity));
  return output.commit();
}

}  // namespace neuronmm::compress
