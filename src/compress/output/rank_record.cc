#include "compress/output/rank_record.h"

#include <algorithm>

#include "compress/sizes/rank.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

int64_t rank_or_dense(const ops::LinearWeight& weight) {
  return weight.low_rank() ? weight.rank() : 0;
}

// Returns the mean share of parameters that the factors save, over the low-rank matrices. Returns 0
// if there are none.
double removed_share(const std::vector<io::MlpShape>& ranks, const io::ModelConfig& config) {
  double removed = 0.0, matrices = 0.0;
  for (const io::MlpShape& layer : ranks) {
    for (const int64_t rank : {layer.gate, layer.up, layer.down}) {
      if (rank == 0) continue;
      removed += 1.0 - kept_share(config.hidden_size, config.intermediate_size, rank);
      matrices += 1.0;
    }
  }
  return matrices == 0.0 ? 0.0 : std::max(0.0, removed / matrices);
}

}  // namespace

Result<std::string> with_rank_record(std::string config_text, const io::Checkpoint& checkpoint,
                                     const io::ModelConfig& config) {
  if (config.compression) return config_text;
  io::CompressionRecord record;
  record.method = "unknown";
  record.block = 1;
  bool low_rank = false;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint, config, layer));
    const io::MlpShape& ranks = record.ranks.emplace_back(
        io::MlpShape{rank_or_dense(weights.mlp.gate), rank_or_dense(weights.mlp.up),
                     rank_or_dense(weights.mlp.down)});
    low_rank = low_rank || ranks.gate > 0 || ranks.up > 0 || ranks.down > 0;
  }
  if (!low_rank) return config_text;
  record.ratio = removed_share(record.ranks, config);
  return io::with_compression_record(config_text, record,
                                     (checkpoint.folder() / "config.json").string());
}

}  // namespace neuronmm::compress
