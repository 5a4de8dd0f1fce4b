#pragma once
// Sizes for every MLP of a model: how they are asked for, and what was chosen.

#include <optional>
#include <string>
#include <vector>

#include "compress/form_choice.h"
#include "compress/gathered_statistics.h"
#include "compress/narrow_layers.h"

namespace neuronmm::compress {

struct ShapeRequest {
  Form form = Form::kMixed;
  RankRule rule;
  bool uniform = false;              // one shape for all layers
  bool measured = false;             // corrected losses decide, too (measured_losses.h)
  bool pad = false;                  // form neurons: zero neurons up to the widest layer's
  std::vector<io::MlpShape> shapes;  // one per layer, in the place of a search; empty: searched
  WeightFormats weights;             // as the model will store them
  StatisticsFiles files;
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
  // The neurons that every layer has, of which its shape says how many are not 0; 0: no padding.
  int64_t padded = 0;

  std::vector<io::MlpShape> shapes() const;
  double predicted_loss() const;  // of all layers
};

// How the MLPs of `model` are narrowed, with the neurons in the order of the predicted losses.
// `config` must outlive the result.
NarrowRequest narrow_request(const ShapeRequest& request, const ShapedModel& model,
                             const io::ModelConfig& config);

}  // namespace neuronmm::compress
