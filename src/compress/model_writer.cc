#include "compress/model_writer.h"

#include <span>

#include "base/interrupt.h"
#include "io/folder_writer.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Where an output tensor's bytes come from: the checkpoint, or one of a matrix's factors.
struct Source {
  io::TensorSpec spec;
  const TensorView* tensor = nullptr;  // null: a factor
  int64_t layer = 0;
  MlpMatrix matrix = MlpMatrix::kGate;
  const char* factor = nullptr;  // "u_t", "v_t"
};

// By the name of the matrix that is replaced.
std::map<std::string, const MatrixPlan*> replaced_matrices(const io::Checkpoint& checkpoint,
                                                           const Plan& plan) {
  const std::string prefix = model::tensor_prefix(checkpoint);
  std::map<std::string, const MatrixPlan*> replaced;
  for (const MatrixPlan& matrix : plan.matrices) {
    if (matrix.rank == 0) continue;
    replaced[fmt::format("{}layers.{}.mlp.{}_proj.weight", prefix, matrix.layer,
                         matrix_name(matrix.matrix))] = &matrix;
  }
  return replaced;
}

std::vector<Source> sources_of(const io::Checkpoint& checkpoint, const Plan& plan) {
  constexpr std::string_view kDenseEnding = "proj.weight";
  const auto replaced = replaced_matrices(checkpoint, plan);
  std::vector<Source> sources;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const auto found = replaced.find(name);
    if (found == replaced.end()) {
      sources.push_back({{name, tensor.dtype, tensor.shape}, &tensor});
      continue;
    }
    const MatrixPlan& matrix = *found->second;
    const std::string stem = name.substr(0, name.size() - kDenseEnding.size());
    sources.push_back({{stem + "u_proj.weight", tensor.dtype, {matrix.out_features, matrix.rank}},
                       nullptr,
                       matrix.layer,
                       matrix.matrix,
                       "v_t"});
    sources.push_back({{stem + "v_proj.weight", tensor.dtype, {matrix.rank, matrix.in_features}},
                       nullptr,
                       matrix.layer,
                       matrix.matrix,
                       "u_t"});
  }
  return sources;
}

Status append(io::SafetensorsWriter& writer, const TensorView& tensor) {
  return writer.append(std::span(tensor.data, static_cast<size_t>(tensor.size_bytes())));
}

Status append(io::SafetensorsWriter& writer, const Source& source, const StagedWork& work) {
  if (source.tensor != nullptr) return append(writer, *source.tensor);
  NMM_ASSIGN(const auto file, work.open_factors(source.layer, source.matrix));
  return append(writer, file.tensors().at(source.factor));
}

}  // namespace

Status write_model(const io::Checkpoint& checkpoint, const Plan& plan, const StagedWork& work,
                   const fs::path& folder, Progress& progress, int64_t max_shard_bytes) {
  const std::vector<Source> sources = sources_of(checkpoint, plan);
  std::vector<io::TensorSpec> specs;
  for (const Source& source : sources) specs.push_back(source.spec);
  const std::vector<io::Shard> shards = io::plan_shards(specs, max_shard_bytes);

  progress.start("writing", static_cast<int64_t>(sources.size()));
  size_t done = 0;
  for (const io::Shard& shard : shards) {
    NMM_ASSIGN(auto writer, io::SafetensorsWriter::create(folder / shard.file_name, shard.specs,
                                                          {{"format", "pt"}}));
    for (size_t i = 0; i < shard.specs.size(); ++i) {
      if (interrupted()) {
        return interrupted_error(fmt::format(
            "all factors are kept in {}; run the same command again to go on", folder.string()));
      }
      const Source& source = sources[done++];
      NMM_TRY(append(writer, source, work));
      progress.update(static_cast<int64_t>(done), source.spec.name);
    }
    NMM_TRY(writer.finish());
  }
  progress.finish();
  if (shards.size() == 1) return {};
  return io::write_text_file(folder / io::kIndexFileName, io::index_json(shards));
}

}  // namespace neuronmm::compress
