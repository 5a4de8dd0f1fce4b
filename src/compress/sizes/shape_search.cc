#include "compress/sizes/shape_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace neuronmm::compress {
namespace {

// The number of halvings of the price interval, which is enough to tell any two fp64 losses apart.
constexpr int kHalvings = 100;

// The range of prices for the hull of a layer, in nats per parameter, and the factor between them.
// At the lowest price a layer of 1e9 parameters would cost a billionth nat. At the highest a single
// parameter costs one nat.
constexpr double kLowestPrice = 1e-18, kHighestPrice = 1.0, kPriceStep = 1.4142135623730951;

// Returns the multiples of `block` below `whole`, after 0, which stands for the whole.
std::vector<int64_t> sizes_of(int64_t whole, int64_t block) {
  std::vector<int64_t> sizes = {0};
  for (int64_t size = block; size < whole; size += block) sizes.push_back(size);
  return sizes;
}

double loss_at(const std::vector<double>& losses, int64_t size) {
  return size == 0 ? 0.0 : losses[static_cast<size_t>(size)];
}

// A size with its cost: the loss plus the price of its parameters.
struct Priced {
  int64_t size = 0;
  double cost = std::numeric_limits<double>::infinity();
};

// Chooses the shape of one layer at a price per parameter.
class LayerChoice {
 public:
  LayerChoice(Form form, const MlpSizes& sizes, int64_t block)
      : form_(form), sizes_(sizes), ranks_(sizes_of(sizes.hidden, block)) {
    neurons_ = form == Form::kNeurons || form == Form::kMixed ? sizes_of(sizes.inner, block)
                                                              : std::vector<int64_t>{0};
    if (form == Form::kNeurons) ranks_ = {0};
  }

  io::MlpShape cheapest(const PredictedLosses& losses, double price) const {
    io::MlpShape best;
    double least = std::numeric_limits<double>::infinity();
    for (const int64_t neurons : neurons_) {
      io::MlpShape shape{.neurons = neurons};
      double cost = loss_at(losses.neurons, neurons);
      const auto choose = [&](int64_t io::MlpShape::*which, const std::vector<double>& curve) {
        const Priced found = cheapest_size(shape, which, curve, price);
        shape.*which = found.size;
        cost += found.cost;
      };
      if (form_ == Form::kPivoted || form_ == Form::kUv) {
        choose(&io::MlpShape::gate, losses.gate);
        choose(&io::MlpShape::up, losses.up);
      } else {
        choose(&io::MlpShape::input, losses.input);
      }
      choose(&io::MlpShape::down, losses.output);
      // The parameters that no choice changes are counted here.
      cost += price * static_cast<double>(sizes_.parameters({.neurons = neurons}));
      if (cost < least) {
        least = cost;
        best = shape;
      }
    }
    return best;
  }

 private:
  // Returns the size with the least cost. Its parameters count relative to the whole, so they are
  // negative.
  Priced cheapest_size(const io::MlpShape& base, int64_t io::MlpShape::*which,
                       const std::vector<double>& curve, double price) const {
    const io::MlpShape plain{.neurons = base.neurons};
    const int64_t whole = sizes_.parameters(plain);
    Priced best;
    for (const int64_t size : ranks_) {
      io::MlpShape shape = plain;
      shape.*which = size;
      const double cost =
          loss_at(curve, size) + price * static_cast<double>(sizes_.parameters(shape) - whole);
      if (cost < best.cost) best = {size, cost};
    }
    return best;
  }

  Form form_;
  MlpSizes sizes_;
  std::vector<int64_t> ranks_, neurons_;
};

// Returns the shapes that all layers choose at a price.
FoundShapes at_price(const LayerChoice& choice, const MlpSizes& sizes,
                     const std::vector<PredictedLosses>& layers, double price) {
  FoundShapes found;
  for (const PredictedLosses& losses : layers) {
    const io::MlpShape& shape = found.shapes.emplace_back(choice.cheapest(losses, price));
    found.parameters += sizes.parameters(shape);
    found.predicted_loss += loss_of(losses, shape);
  }
  return found;
}

// Returns the shape with one of its numbers enlarged by one block, or nothing if that number is
// whole.
std::optional<io::MlpShape> enlarged(io::MlpShape shape, int64_t io::MlpShape::*which,
                                     int64_t whole, int64_t block) {
  if (shape.*which == 0) return std::nullopt;
  shape.*which += block;
  if (shape.*which >= whole) shape.*which = 0;
  return shape;
}

// A possible enlargement of one layer.
struct Step {
  size_t layer = 0;
  io::MlpShape shape;
  int64_t parameters = 0;  // additional parameters
  double gain = 0.0, gain_per_parameter = 0.0;
};

// Returns the enlargement of a single number that gains most per parameter among those that fit
// into the rest of the budget. Steps of several blocks are tried, too: where a curve is not convex,
// a step with little gain can lead to a better one.
std::optional<Step> best_step(const FoundShapes& found, const MlpSizes& sizes, int64_t block,
                              const std::vector<PredictedLosses>& layers, int64_t left) {
  std::optional<Step> best;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const io::MlpShape& shape = found.shapes[layer];
    const int64_t now = sizes.parameters(shape);
    const double loss = loss_of(layers[layer], shape);
    for (const auto which : {&io::MlpShape::gate, &io::MlpShape::up, &io::MlpShape::input,
                             &io::MlpShape::down, &io::MlpShape::neurons}) {
      const int64_t whole = which == &io::MlpShape::neurons ? sizes.inner : sizes.hidden;
      for (auto larger = enlarged(shape, which, whole, block); larger;
           larger = enlarged(*larger, which, whole, block)) {
        Step step{layer, *larger, sizes.parameters(*larger) - now,
                  loss - loss_of(layers[layer], *larger)};
        if (step.parameters > left || step.gain <= 0.0) continue;
        step.gain_per_parameter =
            step.gain / static_cast<double>(std::max<int64_t>(1, step.parameters));
        if (!best || step.gain_per_parameter > best->gain_per_parameter) best = step;
      }
    }
  }
  return best;
}

// Spends the rest of the budget step by step. A price alone reaches only the corners of the convex
// hull of the losses.
void spend_rest(const MlpSizes& sizes, int64_t block, const std::vector<PredictedLosses>& layers,
                int64_t budget, FoundShapes& found) {
  while (const auto step = best_step(found, sizes, block, layers, budget - found.parameters)) {
    found.shapes[step->layer] = step->shape;
    found.parameters += step->parameters;
    found.predicted_loss -= step->gain;
  }
}

}  // namespace

double loss_of(const PredictedLosses& losses, const io::MlpShape& shape) {
  return input_loss_of(losses, shape) + loss_at(losses.output, shape.down) +
         loss_at(losses.neurons, shape.neurons);
}

double input_loss_of(const PredictedLosses& losses, const io::MlpShape& shape) {
  return loss_at(losses.gate, shape.gate) + loss_at(losses.up, shape.up) +
         loss_at(losses.input, shape.input);
}

std::vector<io::MlpShape> hull_shapes(Form form, const MlpSizes& sizes, int64_t block,
                                      const PredictedLosses& losses) {
  const LayerChoice choice(form, sizes, block);
  std::vector<io::MlpShape> shapes = {{}};
  for (double price = kLowestPrice; price < kHighestPrice; price *= kPriceStep) {
    const io::MlpShape shape = choice.cheapest(losses, price);
    if (shape != shapes.back()) shapes.push_back(shape);
  }
  return shapes;
}

Result<FoundShapes> find_shapes(Form form, const MlpSizes& sizes, int64_t block,
                                const std::vector<PredictedLosses>& layers, int64_t budget) {
  const LayerChoice choice(form, sizes, block);
  double low = 0.0, high = 1.0;
  FoundShapes best = at_price(choice, sizes, layers, high);
  // Finds a price at which the parameters fit. The limit is far above any real divergence, because
  // weights that differ by 24 orders of magnitude are predicted to lose that much.
  while (best.parameters > budget && high < 1e60) {
    low = high;
    high *= 1e3;
    best = at_price(choice, sizes, layers, high);
  }
  if (best.parameters > budget) {
    return fail("form {} with block {} keeps at least {} of the MLPs' parameters, asked were {}",
                form_name(form), block, best.parameters, budget);
  }
  for (int i = 0; i < kHalvings; ++i) {
    // Prices span many orders of magnitude, so the interval is halved by ratio where possible.
    const double middle = low > 0.0 ? std::sqrt(low * high) : high * 1e-3;
    if (!(middle > low && middle < high) || high < 1e-30) break;
    FoundShapes found = at_price(choice, sizes, layers, middle);
    if (found.parameters <= budget) {
      best = std::move(found);
      high = middle;
    } else {
      low = middle;
    }
  }
  spend_rest(sizes, block, layers, budget, best);
  return best;
}

}  // namespace neuronmm::compress
