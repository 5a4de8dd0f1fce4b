#include "model/layer_by_layer.h"

#include <algorithm>

#include "model/layer_weights.h"
#include "model/rope.h"
#include "model/transformer.h"
#include "model/weight_reader.h"

namespace neuronmm::model {

Result<Matrix> run_layer_by_layer(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                                  std::span<const std::vector<text::TokenId>> sequences,
                                  const ops::Backend& backend,
                                  const std::function<Status()>& layer_done) {
  NMM_ASSIGN(const auto table,
             require_weight(checkpoint, config, tensor_prefix(checkpoint) + "embed_tokens.weight",
                            {config.vocab_size, config.hidden_size}));
  NMM_ASSIGN(const auto layers, supported_layers(checkpoint, config, backend));
  int64_t tokens = 0, longest = 0;
  for (const auto& sequence : sequences) {
    tokens += std::ssize(sequence);
    longest = std::max(longest, static_cast<int64_t>(std::ssize(sequence)));
  }
  Matrix hidden(tokens, config.hidden_size);
  int64_t first = 0;
  for (const auto& sequence : sequences) {
    embed(table, sequence, config.embedding_scale,
          hidden.view().row_range(first, std::ssize(sequence)));
    first += std::ssize(sequence);
  }
  const RotaryTables rotary(config);
  // The cache's length stays 0, so that every layer of every sequence overwrites it from the start.
  const auto cache =
      backend.make_kv_cache({1, config.num_key_value_heads, config.head_dim, longest, DType::kF32});
  for (const LayerWeights& weights : layers) {
    const DecoderLayer layer(config, 0, weights, backend);
    first = 0;
    for (const auto& sequence : sequences) {
      begin_sequence(config, std::ssize(sequence), *cache);
      const ops::SequenceRows rows = {cache.get(), std::ssize(sequence)};
      layer.forward(hidden.view().row_range(first, rows.rows), rotary, std::span(&rows, 1));
      first += rows.rows;
    }
    checkpoint.release_pages();
    NMM_TRY(layer_done());
  }
  return hidden;
}

}  // namespace neuronmm::model
