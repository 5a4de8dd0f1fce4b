#pragma once
// The weight files of a model whose MLP matrices have new factors: every other tensor byte for byte
// or, when all linear weights are rounded, rounded. Factors have the reference system's names,
// which are crossed: X_v_proj.weight [r, K] is applied first (our u_t), X_u_proj.weight [N, r]
// second (our v_t).

#include <filesystem>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/plan.h"
#include "compress/smoothing.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "io/shards.h"

namespace neuronmm::compress {

// Matrices with a rank have their factors in `work`; in the checkpoint they are dense, or factors
// of the same rank. Or all MLPs lie there whole (narrow_layers.h) and replace dense ones.
struct ModelSource {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  const std::vector<MatrixPlan>& matrices;
  const std::filesystem::path& work;
  bool whole_mlps = false;
  TensorScales scales = {};  // of tensors that are not in `work`
  // The folder of the codes of all linear tensors (codes_file.h), for a quantized model; empty:
  // they are rounded to nearest.
  std::filesystem::path codes = {};
};

// model.safetensors in `folder`, or shards of at most max_shard_bytes with an index.
Status write_model(const ModelSource& source, const std::optional<io::Quantization>& quantization,
                   const std::filesystem::path& folder, Progress& progress,
                   int64_t max_shard_bytes = io::kMaxShardBytes);

}  // namespace neuronmm::compress
