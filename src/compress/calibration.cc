#include "compress/calibration.h"

#include <system_error>

#include "compress/gram.h"
#include "compress/layerwise_pass.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

const LayerwisePass::Settings kCalibrationPass = {.name = "calibration", .label = "calibrating"};

// Σ x xᵀ and Σ y yᵀ of a layer.
class GramVisit : public SequenceVisit {
 public:
  GramVisit(const VisitContext& context, const model::LayerWeights& weights)
      : context_(context), layer_(context.config, 0, weights, context.backend) {}

  void visit(const SequenceState& state) override {
    const MutableMatrixView hidden = state.hidden;
    const ops::SequenceRows rows = {&context_.cache, hidden.rows};
    Observer observer(state.sums);
    layer_.forward(hidden, context_.rotary, std::span(&rows, 1), &observer);
  }

 private:
  class Observer : public model::MlpObserver {
   public:
    explicit Observer(std::span<DoubleMatrix> sums) : sums_(sums) {}
    void on_mlp(int64_t, ConstMatrixView input, ConstMatrixView output) override {
      add_gram(input, sums_[0]);
      add_gram(output, sums_[1]);
    }

   private:
    std::span<DoubleMatrix> sums_;
  };

  VisitContext context_;
  model::DecoderLayer layer_;
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

VisitResult make_gram_visit(const VisitContext& context, const LayerVisit& visit) {
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, visit.layer));
  return VisitResult(std::make_unique<GramVisit>(context, weights));
}

// Layer by layer over all of the text: one layer's weights are in memory at a time.
Status calibrate(const PassInputs& inputs, const fs::path& work) {
  const io::ModelConfig& config = inputs.config;
  if (all_done(config, work)) return {};
  NMM_ASSIGN(LayerwisePass pass, LayerwisePass::open(inputs, work, kCalibrationPass));
  while (!pass.done()) {
    NMM_TRY(pass.visit({.kind = VisitKind::kGrams, .layer = pass.layer()}));
    LayerGrams grams{symmetric(pass.sum(0)), symmetric(pass.sum(1))};
    if (!grams.in.all_finite() || !grams.out.all_finite()) {
      return fail("{}: the MLP of layer {} makes NaN or infinity of the calibration text",
                  inputs.checkpoint.folder().string(), pass.layer());
    }
    NMM_TRY(write_gram_file(layer_gram_path(work, pass.layer()), config, inputs.text.origin,
                            pass.layer(), 1,
                            [&](int64_t) { return Result<LayerGrams>(std::move(grams)); }));
    NMM_TRY(pass.next_layer());
  }
  return {};
}

}  // namespace neuronmm::compress
