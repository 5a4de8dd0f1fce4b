#pragma once
// Searches the best model within a budget: a shape for every MLP and a format for every part, with
// the least predicted divergence. Losses of single changes are assumed to add up, so that the
// search is a knapsack problem (knapsack.h). `fit` runs the searches.

#include <optional>
#include <utility>
#include <vector>

#include "compress/sizes/shape_search.h"
#include "fit/costs.h"
#include "fit/knapsack.h"
#include "fit/model_bytes.h"
#include "fit/part.h"
#include "fit/rounding_losses.h"
#include "io/checkpoint.h"

namespace neuronmm::fit {

// A possible model: the shapes of its MLPs and the formats of its weights.
struct Choice {
  bool rounded = false;                             // false: all formats are kAsIs
  std::vector<io::MlpShape> shapes;                 // per layer
  std::vector<std::array<size_t, kParts>> formats;  // per layer
  size_t head = kAsIs;
  size_t table = kAsIs;       // of an embedding table that is not the LM head
  Quantities predicted = {};  // of the whole model
  // No choice within the budget has a smaller sum of the quantity that is minimized.
  double bound = 0.0;
};

// Returns whether any MLP is narrowed.
bool narrows(const Choice& choice);

// Factors of the predictions, found by measuring a model.
struct Correction {
  // Factors of the losses by narrowing and by rounding.
  double shapes = 1.0, rounding = 1.0;
  double decode = 1.0, prefill = 1.0;
};

// Everything that has been measured of a model before a search.
struct SearchInputs {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  // Per layer, corrected by measurements. Empty if MLPs stay whole.
  std::vector<compress::PredictedLosses> shapes;
  // Empty if the device multiplies no rounded weights.
  std::optional<RoundingLosses> rounding;
  const Costs& costs;
  int64_t block = 1;  // shapes are multiples of it
  // The bits that the embedding table must have in a rounded model, or nothing if the search
  // chooses them. A tied table is the LM head.
  std::optional<int> embedding_bits = {};
};

// All options of one model with their predicted costs.
class ModelSearch {
 public:
  explicit ModelSearch(const SearchInputs& inputs, const Correction& correction = {});

  // Returns the best choice, or nothing if no choice is within the limits.
  std::optional<Choice> best(const Goal& goal) const;
  // Returns the smallest possible sum of a quantity.
  double smallest(Quantity quantity) const;
  // Returns the predicted costs of any choice.
  Quantities predict(const Choice& choice) const;
  const Quantities& dense() const { return dense_; }
  // Returns the choice with whole MLPs and one format for all parts.
  Choice uniform(size_t format, size_t head) const;
  // Returns the best choice of whole MLPs, one format for all parts and one for the head that is
  // within the limits, if there is one, and the smallest of these choices.
  std::pair<std::optional<Choice>, Choice> plain(const Goal& goal) const;
  // Returns the choice of form "mixed" that keeps this share of the MLPs' parameters and rounds
  // nothing. The result is empty if blocks are too large for that share.
  std::optional<Choice> narrowed(double kept) const;

 private:
  // Items of the knapsack are the head, the table, the parts of attention and the MLPs.
  std::optional<Choice> best_of(bool rounded, const Goal& goal) const;
  Items items_of(bool rounded) const;
  Choice choice_of(bool rounded, const Selection& selection) const;

  std::vector<io::MlpShape> shapes_of(size_t layer) const;
  Quantities head(size_t format) const;
  Quantities attention(int64_t layer, Part part, size_t format) const;
  std::optional<Quantities> mlp(int64_t layer, const io::MlpShape& shape, size_t gate,
                                size_t down) const;

  Quantities table(size_t format) const;
  Quantities fixed_costs(bool rounded) const;
  Quantities with_times(Quantities costs, const Seconds& seconds) const;

  const SearchInputs& inputs_;
  const Correction correction_;
  compress::MlpSizes sizes_;
  ModelBytes bytes_;
  Quantities dense_ = {};
  // A shape and formats for one MLP.
  struct MlpOption {
    io::MlpShape shape;
    size_t gate = kAsIs, down = kAsIs;
    Quantities costs = {};
  };
  std::vector<std::vector<MlpOption>> as_is_, rounded_;  // per layer
};

}  // namespace neuronmm::fit
