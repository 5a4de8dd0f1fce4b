#pragma once
// Every MLP of a model in sizes of its own: predicts what each size costs, chooses, narrows. What a
// layer has become lies in the work folder until the model is written, so that an interrupted run
// goes on.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compress/dense_reference.h"
#include "compress/form_choice.h"
#include "compress/inputs.h"
#include "compress/shape_pass.h"
#include "compress/shape_search.h"

namespace neuronmm::compress {

struct ShapeRequest {
  Form form = Form::kMixed;
  RankRule rule;
  bool uniform = false;              // one shape for all layers
  std::vector<io::MlpShape> shapes;  // one per layer, in the place of a search; empty: searched
  std::filesystem::path statistics;  // the folder with every layer's (mlp_statistics.h)
  std::filesystem::path metric;  // the output metric's file; empty: the local one (mlp_metric.h)
  std::filesystem::path losses;  // the folder in which the predicted losses are, or will be, kept
  bool measured = false;         // corrected losses decide, too (measured_losses.h)
  bool pad = false;              // form neurons: zero neurons up to the widest layer's
};

struct LayerReport {
  io::MlpShape shape;
  double kept_share = 1.0;      // of the MLP's parameters; neurons of zeros count as kept
  double predicted_loss = 0.0;  // nats per token
  double input_loss = 0.0;      // of that, what narrower inputs of gate and up lose
  double largest_map = 0.0;     // of the maps between pivots and others
};

// KL(dense ‖ compressed) on held-out text, nats per token, of the model with sizes by predicted
// losses and by those that were measured (form_trial.h).
struct SizeChoice {
  bool held_out = false;  // false: pieces of the text that both were fitted to
  double predicted = 0.0, measured = 0.0;
  bool taken() const { return measured <= predicted; }  // those by measured losses
};
// "by measured losses, KL 0.0925 on held-out tokens where those by predicted ones have 0.141"
std::string size_choice_text(const SizeChoice& choice);

struct ShapedModel {
  Form form = Form::kMixed;               // what auto has become
  std::optional<FormChoice> form_choice;  // where the request left it open
  std::optional<SizeChoice> size_choice;  // where sizes were measured
  std::vector<LayerReport> layers;
  int64_t padded =
      0;  // the neurons that every layer has, of which its shape says how many are not 0
};

// Whether there are sizes that keep what the rule asks for; to be asked before any work is done.
Status check_sizes(const io::ModelConfig& config, const ShapeRequest& request);

// Sizes are chosen by what is predicted; nothing is narrowed yet, but for form auto, which is
// measured (form_trial.h). Layers run side by side.
Result<ShapedModel> choose_shapes(const CompressionInputs& inputs, const ShapeRequest& request,
                                  const std::filesystem::path& work);

// The losses of every layer at every size, predicted and then corrected by what the sizes are
// measured to cost that the request chooses (measured_losses.h).
Result<std::vector<PredictedLosses>> measured_curves(const CompressionInputs& inputs,
                                                     const ShapeRequest& request,
                                                     const std::filesystem::path& work);

// Leaves a checked file per layer in `out`, shaped_path(), with the tensors of its MLP by their
// names in model/mlp_reader.h, and skips those that are there. What choose_shapes() has found is in
// `work`; both may be one folder. Fills in largest_map. Without a text in `inputs` nothing is
// fitted to the neurons that a narrowed gate and up make.
Status shape_layers(const CompressionInputs& inputs, const ShapeRequest& request,
                    const std::filesystem::path& work, const std::filesystem::path& out,
                    ShapedModel& model);
std::filesystem::path shaped_path(const std::filesystem::path& folder, int64_t layer);
// Those MLPs, as they will be stored.
WithMlp shaped_mlps(const CompressionInputs& inputs, const std::filesystem::path& folder);

}  // namespace neuronmm::compress
