#pragma once
// The compressed model's weight files: every tensor of the original byte for byte, except that each
// compressed MLP matrix is replaced by its two factors under the reference system's names.
// Those are crossed: X_v_proj.weight [r, K] is applied first (our u_t), X_u_proj.weight [N, r]
// second (our v_t).

#include <filesystem>

#include "base/progress.h"
#include "base/result.h"
#include "compress/plan.h"
#include "compress/staged_work.h"
#include "io/checkpoint.h"
#include "io/shards.h"

namespace neuronmm::compress {

// model.safetensors in `folder`, or shards of at most max_shard_bytes with an index.
Status write_model(const io::Checkpoint& checkpoint, const Plan& plan, const StagedWork& work,
                   const std::filesystem::path& folder, Progress& progress,
                   int64_t max_shard_bytes = io::kMaxShardBytes);

}  // namespace neuronmm::compress
