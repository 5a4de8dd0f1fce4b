#pragma once
// Writes the weight files of a compressed or quantized model. MLP matrices may have new factors, or
// whole MLPs may be new. All other tensors are copied byte for byte, or rounded if all linear
// weights are. compressed_folder.h and quantize.h call it.
//
// Factors have the names of the reference system, which are crossed: X_v_proj.weight [r, K] is
// applied first (our u_t), and X_u_proj.weight [N, r] second (our v_t).

#include <filesystem>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "compress/rounding/smoothing.h"
#include "compress/sizes/plan.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "io/shards.h"

namespace neuronmm::compress {

// The experts of the new model, if the model is a mixture of experts whose experts change.
struct NewExperts {
  // The experts that each layer keeps, ascending. Kept experts are numbered anew, and the others
  // lose their rows of the router.
  std::vector<std::vector<int32_t>> kept;
  // Whether the kept experts are in `work` (narrow_experts.h). Otherwise they stay as they are.
  bool narrowed = false;
  // The ranks of the bases of each layer, which are in `work`, too; empty: there are none.
  std::vector<io::ExpertBases> bases = {};
};

// The model to write, and the places of its tensors. References must outlive it.
//
// If whole_mlps is false, the factors of matrices with a rank are in `work` (factors_file.h). In
// the checkpoint such a matrix is dense or has factors of the same rank. If whole_mlps is true, all
// new MLPs are in `work` (narrow_layers.h), and those of the checkpoint are dense.
struct ModelSource {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  const std::vector<MatrixPlan>& matrices;
  const std::filesystem::path& work;
  bool whole_mlps = false;
  TensorScales scales = {};  // for tensors that are not in `work`
  // The folder with the codes of all linear tensors (codes_file.h), for a quantized model. If it is
  // empty, they are rounded to nearest.
  std::filesystem::path codes = {};
  // Null: experts stay as they are.
  const NewExperts* experts = nullptr;
  // Whether the published class of the family loads the folder, which then has the matrices that
  // the class has (fused_sources.h). Our own classes have them split. No tensor may be rounded.
  bool published = false;
};

// Writes model.safetensors to `folder`, or shards of at most max_shard_bytes with an index.
// `quantization` says how linear weights are rounded; nullopt: they are not. Fails with the
// tensor's name if a value to be rounded is NaN or infinite, and if files of `work` or `codes` are
// missing or damaged.
Status write_model(const ModelSource& source, const std::optional<io::Quantization>& quantization,
                   const std::filesystem::path& folder, Progress& progress,
                   int64_t max_shard_bytes = io::kMaxShardBytes);

}  // namespace neuronmm::compress
