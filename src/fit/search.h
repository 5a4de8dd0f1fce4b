#pragma once
// The best model within a budget: a shape for every MLP and a format for every part, with the least
// predicted divergence. Losses of single changes are taken to add up, so that the search is a
// knapsack (knapsack.h).

#include <optional>
#include <vector>

#include "compress/sizes/shape_search.h"
#include "fit/costs.h"
#include "fit/knapsack.h"
#include "fit/part.h"
#include "fit/rounding_losses.h"
#include "io/checkpoint.h"

namespace neuronmm::fit {

// One way to write the model.
struct Choice {
  bool rounded = false;                             // else all formats are kAsIs
  std::vector<io::MlpShape> shapes;                 // per layer
  std::vector<std::array<size_t, kParts>> formats;  // per layer
  size_t head = kAsIs;
  Quantities predicted = {};  // of the whole model
  double bound = 0.0;         // no choice within the budget has less of what was to be least
};

// Whether any MLP is narrowed.
bool narrows(const Choice& choice);

// What predictions are multiplied with, once a model was measured.
struct Correction {
  double shapes = 1.0, rounding = 1.0;  // losses of either
  double decode = 1.0, prefill = 1.0;
};

struct Known {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  std::vector<compress::PredictedLosses> shapes;  // per layer, corrected by measurements
  std::optional<RoundingLosses> rounding;         // nothing: the device has no rounded weights
  const Costs& costs;
  int64_t block = 1;  // of shapes
};

class ModelSearch {
 public:
  explicit ModelSearch(const Known& known, const Correction& correction = {});

  // Nothing where no choice is within the limits.
  std::optional<Choice> best(const Goal& goal) const;
  double smallest(Quantity quantity) const;  // that it can be
  // Of a choice that was made elsewhere.
  Quantities predict(const Choice& choice) const;
  const Quantities& dense() const { return dense_; }
  // Every MLP whole and every part in one format.
  Choice uniform(size_t format, size_t head) const;
  // Form mixed at this share of the MLPs' parameters, not rounded; nothing where blocks are too
  // large for that.
  std::optional<Choice> narrowed(double kept) const;

 private:
  // An item is the head, a part of attention or an MLP.
  std::optional<Choice> best_of(bool rounded, const Goal& goal) const;
  Items items_of(bool rounded) const;
  Choice choice_of(bool rounded, const Selection& selection) const;

  Quantities head(size_t format) const;
  Quantities attention(int64_t layer, Part part, size_t format) const;
  std::optional<Quantities> mlp(int64_t layer, const io::MlpShape& shape, size_t gate,
                                size_t down) const;
  double bytes(int64_t rows, int64_t columns, size_t format) const;

  Quantities base(size_t head) const;
  Quantities timed(Quantities costs, const Seconds& seconds) const;

  const Known& known_;
  const Correction correction_;
  compress::MlpSizes sizes_;
  int64_t element_bytes_ = 2;  // of weights that are not rounded
  double fixed_bytes_ = 0.0;   // of all that is never rounded
  Quantities dense_ = {};
  struct MlpOption {
    io::MlpShape shape;
    size_t gate = kAsIs, down = kAsIs;
    Quantities costs = {};
  };
  std::vector<std::vector<MlpOption>> as_is_, rounded_;  // per layer
};

}  // namespace neuronmm::fit
