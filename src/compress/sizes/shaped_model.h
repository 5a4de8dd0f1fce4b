#pragma once
// Types for the sizes of all MLPs of a model: the request for them, and the result. shape_choice.h
// turns one into the other; compress.cc and the model card report the result.

#include <optional>
#include <string>
#include <vector>

#include "compress/factors/narrow_layers.h"
#include "compress/sizes/form_choice.h"
#include "compress/statistics/gathered_statistics.h"

namespace neuronmm::compress {

// A request for sizes.
struct ShapeRequest {
  Form form = Form::kMixed;
  RankRule rule;
  bool uniform = false;              // one shape for all layers
  bool measured = false;             // also try sizes by corrected losses (measured_losses.h)
  bool pad = false;                  // form neurons: add zero neurons up to the widest layer's
  std::vector<io::MlpShape> shapes;  // one per layer, given instead of searched; may be empty
  WeightFormats weights;             // as the model will store them
  StatisticsFiles files;
};

// The report about the MLP of one layer.
struct LayerReport {
  io::MlpShape shape;
  double kept_share = 1.0;      // of the MLP's parameters; zero neurons count as kept
  double predicted_loss = 0.0;  // nats per token
  double input_loss = 0.0;      // the part of it from narrower inputs of gate and up
  double largest_map = 0.0;     // the largest entry of the maps of pivots
};

// The comparison of sizes by predicted losses with sizes by measured ones: KL(dense ‖ compressed)
// of both models on held-out text, in nats per token (held_out_divergence.h).
struct SizeChoice {
  // False: the text is part of the one that both models were fitted to.
  bool held_out = false;
  double predicted = 0.0, measured = 0.0;
  // Returns whether the sizes by measured losses are used.
  bool uses_measured() const { return measured <= predicted; }
};
// Returns a text such as "by measured losses, KL 0.0925 on held-out tokens where those by predicted
// ones have 0.141".
std::string size_choice_text(const SizeChoice& choice);

// The chosen sizes of a model.
struct ShapedModel {
  Form form = Form::kMixed;               // never auto
  std::optional<FormChoice> form_choice;  // form auto with several candidates
  std::optional<SizeChoice> size_choice;  // if sizes were measured
  std::vector<LayerReport> layers;
  // The number of neurons of every layer, zero neurons included; 0 means no padding. The shape of a
  // layer says how many of its neurons are not zero.
  int64_t padded = 0;

  std::vector<io::MlpShape> shapes() const;
  double predicted_loss() const;  // the sum over all layers
};

// Returns how the MLPs of `model` are narrowed, with the neurons in the order of the predicted
// losses. `config` must outlive the result.
NarrowRequest narrow_request(const ShapeRequest& request, const ShapedModel& model,
                             const io::ModelConfig& config);

}  // namespace neuronmm::compress
