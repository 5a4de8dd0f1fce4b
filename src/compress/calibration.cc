#include "compress/calibration.h"

#include <system_error>

#include "compress/layerwise_pass.h"
#include "model/rope.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

const LayerwisePass::Settings kCalibrationPass = {
    .name = "calibration", .label = "calibrating", .stages = 1, .streams = 1};

// The sums of a pass: Σ x xᵀ and Σ y yᵀ.
class GramObserver : public model::MlpObserver {
 public:
  explicit GramObserver(LayerwisePass& pass) : pass_(pass) {}
  void on_mlp(int64_t, ConstMatrixView input, ConstMatrixView output) override {
    add_gram(input, pass_.sum(0));
    add_gram(output, pass_.sum(1));
  }

 private:
  LayerwisePass& pass_;
};

// The state goes when the last layer is written, so that its absence and all files together mean
// that nothing is left to do.
bool all_done(const io::ModelConfig& config, const fs::path& work) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!io::SafetensorsFile::open_checked(layer_gram_path(work, layer)).ok()) return false;
  }
  std::error_code ignored;
  return !fs::exists(LayerwisePass::state_path(work, kCalibrationPass.name), ignored);
}

}  // namespace

fs::path layer_gram_path(const fs::path& work, int64_t layer) {
  return work / fmt::format("gram-{:05}.safetensors", layer);
}

// Layer by layer over all of the text: one layer's weights are in memory at a time.
Status calibrate(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                 const ops::Backend& backend, const CalibrationSequences& text,
                 const fs::path& work, Progress& progress) {
  if (all_done(config, work)) return {};
  NMM_ASSIGN(LayerwisePass pass,
             LayerwisePass::open(checkpoint, config, text, work, kCalibrationPass, progress));
  const ops::RotaryEmbedding rotary = model::rotary_embedding(config);
  // One layer is in it at a time, as layer 0.
  const auto cache =
      backend.make_kv_cache({1, config.num_key_value_heads, config.head_dim, text.longest()});
  GramObserver observer(pass);
  while (!pass.done()) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint, config, pass.layer()));
    const model::DecoderLayer layer(config, 0, weights, backend);
    NMM_TRY(pass.visit_sequences([&](size_t sequence) {
      const MutableMatrixView hidden = pass.hidden(0, sequence);
      const ops::SequenceRows rows = {cache.get(), hidden.rows};
      layer.forward(hidden, rotary, std::span(&rows, 1), &observer);
    }));
    LayerGrams grams{symmetric(pass.sum(0)), symmetric(pass.sum(1))};
    if (!grams.in.all_finite() || !grams.out.all_finite()) {
      return fail("{}: the MLP of layer {} makes NaN or infinity of the calibration text",
                  checkpoint.folder().string(), pass.layer());
    }
    NMM_TRY(write_gram_file(layer_gram_path(work, pass.layer()), config, text.origin, pass.layer(),
                            1, [&](int64_t) { return Result<LayerGrams>(std::move(grams)); }));
    NMM_TRY(pass.next_layer());
  }
  return {};
}

}  // namespace neuronmm::compress
