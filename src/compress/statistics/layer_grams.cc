#include "compress/statistics/layer_grams.h"

#include <algorithm>
#include <system_error>

#include "base/task_labels.h"
#include "compress/statistics/layerwise_pass.h"
#include "compress/statistics/matrix_tensor.h"
#include "compress/statistics/mlp_statistics.h"
#include "compress/statistics/normed_mlp.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr const char *kInName = "in", *kOutName = "out";

const LayerwisePass::Settings kCalibrationPass = {.name = "calibration",
                                                  .label = task::kCalibrating};

// Sums up the two Gram matrices of a layer (LayerGrams).
class GramVisit : public SequenceVisit {
 public:
  GramVisit(const VisitContext& context, const model::LayerWeights& weights)
      : context_(context),
        layer_(context.config, 0, weights, context.backend),
        down_(weights.mlp.down) {}

  void visit(const SequenceState& state) override {
    const MutableMatrixView hidden = state.hidden;
    model::begin_sequence(context_.config, hidden.rows, context_.cache);
    const ops::SequenceRows rows = {&context_.cache, hidden.rows};
    Observer observer(state.sums, down_);
    layer_.forward(hidden, context_.rotary, std::span(&rows, 1), &observer);
  }

 private:
  class Observer : public model::MlpObserver {
   public:
    Observer(std::span<DoubleMatrix> sums, const ops::LinearWeight& down)
        : sums_(sums), down_(down) {}
    void on_mlp(int64_t, ConstMatrixView input, ConstMatrixView output) override {
      add_gram(input, sums_[0]);
      if (down_.bias.empty()) return add_gram(output, sums_[1]);
      Matrix of_weight(output.rows, output.columns);
      for (int64_t i = 0; i < output.rows; ++i) {
        std::copy_n(output.row(i), output.columns, of_weight.row(i));
      }
      remove_bias(down_, of_weight.view());
      add_gram(of_weight.view(), sums_[1]);
    }

   private:
    std::span<DoubleMatrix> sums_;
    const ops::LinearWeight& down_;
  };

  VisitContext context_;
  model::DecoderLayer layer_;
  ops::LinearWeight down_;
};

fs::path layer_path(const fs::path& work, int64_t layer) {
  return work / fmt::format("gram-{:05}.safetensors", layer);
}

Status write_layer(const fs::path& path, const LayerGrams& grams) {
  const Shape shape = {grams.in.rows(), grams.in.columns()};
  NMM_ASSIGN(auto writer,
             io::SafetensorsWriter::create_checked(
                 path, {{kInName, DType::kF64, shape}, {kOutName, DType::kF64, shape}}, {}));
  NMM_TRY(writer.append(bytes_of(grams.in)));
  NMM_TRY(writer.append(bytes_of(grams.out)));
  return writer.finish();
}

Result<LayerGrams> read_layer(const fs::path& path, int64_t hidden) {
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open(path));
  LayerGrams grams;
  NMM_ASSIGN(grams.in, read_matrix(file, kInName, {hidden, hidden}, path.string()));
  NMM_ASSIGN(grams.out, read_matrix(file, kOutName, {hidden, hidden}, path.string()));
  return grams;
}

// Returns whether nothing is left to do. The state of the pass is deleted after the last layer is
// written, so a missing state together with all files means that the pass has ended.
bool all_done(const io::ModelConfig& config, const fs::path& work) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!io::SafetensorsFile::open_checked(layer_path(work, layer)).ok()) return false;
  }
  std::error_code ignored;
  return fs::status(LayerwisePass::state_path(work, kCalibrationPass.name), ignored).type() ==
         fs::file_type::not_found;
}

// Runs all of the text through one layer after the other, so that only one layer's weights are in
// memory at a time.
Status run_pass(const CompressionInputs& inputs, const fs::path& work) {
  NMM_ASSIGN(LayerwisePass pass, LayerwisePass::open(inputs, work, kCalibrationPass));
  while (!pass.done()) {
    NMM_TRY(pass.visit({.kind = VisitKind::kGrams, .layer = pass.layer()}));
    const LayerGrams grams{symmetric(pass.sum(0)), symmetric(pass.sum(1))};
    if (!grams.in.all_finite() || !grams.out.all_finite()) {
      return fail("{}: the MLP of layer {} makes NaN or infinity of the calibration text",
                  inputs.checkpoint.folder().string(), pass.layer());
    }
    NMM_TRY(write_layer(layer_path(work, pass.layer()), grams));
    NMM_TRY(pass.next_layer());
  }
  return {};
}

}  // namespace

VisitResult make_gram_visit(const VisitContext& context, const LayerVisit& visit) {
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, visit.layer));
  return VisitResult(std::make_unique<GramVisit>(context, weights));
}

Result<GramSource> gather_layer_grams(const CompressionInputs& inputs, const fs::path& work) {
  if (!all_done(inputs.config, work)) NMM_TRY(run_pass(inputs, work));
  return GramSource([work, hidden = inputs.config.hidden_size](int64_t layer) {
    return read_layer(layer_path(work, layer), hidden);
  });
}

GramSource layer_grams_of_statistics(const fs::path& statistics, const io::Checkpoint& checkpoint,
                                     const io::ModelConfig& config) {
  return [statistics, &checkpoint, &config](int64_t layer) -> Result<LayerGrams> {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint, config, layer));
    const DoubleMatrix down_t = to_double_matrix(weights.mlp.down.w_t);
    NMM_ASSIGN(MlpStatistics known, read_statistics(statistics, layer, config));
    const DoubleMatrix product = multiply(down_t, Transpose::kNo, known.neurons, Transpose::kNo);
    return LayerGrams{std::move(known.in),
                      multiply(product, Transpose::kNo, down_t, Transpose::kYes)};
  };
}

}  // namespace neuronmm::compress
