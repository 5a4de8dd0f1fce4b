#include "compress/sizes/mixture_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace neuronmm::compress {
namespace {

// The number of halvings of the price interval, which is enough to tell any two fp64 losses apart.
constexpr int kPriceHalvings = 100;
// The most rounds in which the bases and the experts of a layer choose in turn. Assumed: choices
// settle after two or three.
constexpr int kRounds = 8;

// Returns the multiples of `block` below `whole`, and `last`, which stands for the whole.
std::vector<int64_t> sizes_of(int64_t whole, int64_t block, int64_t last) {
  std::vector<int64_t> sizes;
  for (int64_t size = block; size < whole; size += block) sizes.push_back(size);
  sizes.push_back(last);
  return sizes;
}

double loss_of_rank(const std::vector<double>& losses, int64_t rank) {
  return rank == 0 ? 0.0 : losses[static_cast<size_t>(rank)];
}

double loss_of(const MixtureLosses& losses, const MixtureShape& shape) {
  double loss = basis_loss(losses, shape.bases);
  for (size_t e = 0; e < losses.neurons.size(); ++e) {
    loss += losses.neurons[e][static_cast<size_t>(shape.neurons[e])];
  }
  return loss;
}

// The shapes of all layers and their parameters.
struct Found {
  std::vector<MixtureShape> shapes;
  int64_t parameters = 0;
};

class MixtureSearch {
 public:
  MixtureSearch(Form form, const MixtureSizes& sizes, int64_t block,
                const std::vector<MixtureLosses>& layers)
      : form_(form),
        sizes_(sizes),
        block_(block),
        ranks_(sizes_of(sizes.hidden, block, 0)),
        widths_(sizes_of(sizes.inner, block, sizes.inner)),
        layers_(layers) {}

  std::vector<MixtureShape> run(int64_t budget) const {
    Found best;
    for (size_t i = 0; i < layers_.size(); ++i) {
      best.shapes.push_back(smallest_mixture(form_, sizes_, block_));
      best.parameters += sizes_.parameters(best.shapes.back());
    }
    // Prices span many orders of magnitude, so the interval is halved by ratio.
    double low = 1e-30, high = 1e60;
    for (int i = 0; i < kPriceHalvings; ++i) {
      const double middle = std::sqrt(low * high);
      Found found = at_price(middle);
      if (found.parameters <= budget) {
        best = std::move(found);
        high = middle;
      } else {
        low = middle;
      }
    }
    spend_rest(budget, best);
    return best.shapes;
  }

 private:
  Found at_price(double price) const {
    Found found;
    for (const MixtureLosses& losses : layers_) {
      found.shapes.push_back(cheapest(losses, price));
      found.parameters += sizes_.parameters(found.shapes.back());
    }
    return found;
  }

  MixtureShape cheapest(const MixtureLosses& losses, double price) const {
    MixtureShape shape = sizes_.whole();
    for (int round = 0; round < kRounds; ++round) {
      const MixtureShape before = shape;
      if (has_bases(form_)) {
        choose_rank(losses.bases.input, price, &io::ExpertBases::input, shape);
        choose_rank(losses.bases.output, price, &io::ExpertBases::output, shape);
      }
      if (has_fewer_neurons(form_)) choose_neurons(losses, price, shape);
      if (shape == before) break;
    }
    return shape;
  }

  void choose_rank(const std::vector<double>& losses, double price, int64_t io::ExpertBases::*which,
                   MixtureShape& shape) const {
    MixtureShape tried = shape;
    const auto cost = [&](int64_t rank) {
      tried.bases.*which = rank;
      return loss_of_rank(losses, rank) + price * static_cast<double>(sizes_.parameters(tried));
    };
    shape.bases.*which = *std::ranges::min_element(ranks_, {}, cost);
  }

  void choose_neurons(const MixtureLosses& losses, double price, MixtureShape& shape) const {
    const double of_neuron = price * static_cast<double>(sizes_.parameters_of_neuron(shape.bases));
    for (size_t e = 0; e < shape.neurons.size(); ++e) {
      const auto cost = [&](int64_t width) {
        return losses.neurons[e][static_cast<size_t>(width)] +
               of_neuron * static_cast<double>(width);
      };
      shape.neurons[e] = *std::ranges::min_element(widths_, {}, cost);
    }
  }

  // A possible enlargement of one layer.
  struct Step {
    size_t layer = 0;
    MixtureShape shape;
    int64_t parameters = 0;  // additional parameters
    double gain_per_parameter = 0.0;
  };

  // Keeps the shape if it gains more per parameter than the best step so far. A larger shape may
  // have fewer parameters, because a whole side needs no basis.
  void try_step(const Found& found, size_t layer, const MixtureShape& shape, int64_t left,
                std::optional<Step>& best) const {
    const MixtureShape& now = found.shapes[layer];
    const int64_t more = sizes_.parameters(shape) - sizes_.parameters(now);
    const double gain = loss_of(layers_[layer], now) - loss_of(layers_[layer], shape);
    if (more > left || gain <= 0.0) return;
    const double value = gain / static_cast<double>(std::max<int64_t>(1, more));
    if (!best || value > best->gain_per_parameter) best = Step{layer, shape, more, value};
  }

  void try_steps(const Found& found, size_t layer, int64_t left, std::optional<Step>& best) const {
    const MixtureShape& now = found.shapes[layer];
    for (const auto which : {&io::ExpertBases::input, &io::ExpertBases::output}) {
      if (now.bases.*which == 0) continue;
      for (const int64_t rank : ranks_) {
        if (rank > 0 && rank <= now.bases.*which) continue;
        MixtureShape shape = now;
        shape.bases.*which = rank;
        try_step(found, layer, shape, left, best);
      }
    }
    if (!has_fewer_neurons(form_)) return;
    for (size_t e = 0; e < now.neurons.size(); ++e) {
      for (const int64_t width : widths_) {
        if (width <= now.neurons[e]) continue;
        MixtureShape shape = now;
        shape.neurons[e] = width;
        try_step(found, layer, shape, left, best);
      }
    }
  }

  // Spends the rest of the budget step by step. A price alone reaches only the corners of the
  // convex hull of the losses.
  void spend_rest(int64_t budget, Found& found) const {
    for (;;) {
      std::optional<Step> best;
      for (size_t layer = 0; layer < layers_.size(); ++layer) {
        try_steps(found, layer, budget - found.parameters, best);
      }
      if (!best) return;
      found.shapes[best->layer] = best->shape;
      found.parameters += best->parameters;
    }
  }

  Form form_;
  MixtureSizes sizes_;
  int64_t block_;
  std::vector<int64_t> ranks_, widths_;
  const std::vector<MixtureLosses>& layers_;
};

}  // namespace

bool has_bases(Form form) { return form == Form::kBasis || form == Form::kMixed; }
bool has_fewer_neurons(Form form) { return form == Form::kNeurons || form == Form::kMixed; }

MixtureShape MixtureSizes::whole() const {
  return {{}, std::vector<int64_t>(static_cast<size_t>(experts), inner)};
}

int64_t MixtureSizes::parameters_of_neuron(const io::ExpertBases& bases) const {
  const auto width = [&](int64_t rank) { return rank > 0 ? rank : hidden; };
  return 2 * width(bases.input) + width(bases.output);
}

int64_t MixtureSizes::parameters(const MixtureShape& shape) const {
  const int64_t neurons = std::accumulate(shape.neurons.begin(), shape.neurons.end(), int64_t{0});
  return neurons * parameters_of_neuron(shape.bases) +
         hidden * (shape.bases.input + shape.bases.output);
}

double basis_loss(const MixtureLosses& losses, const io::ExpertBases& bases) {
  return loss_of_rank(losses.bases.input, bases.input) +
         loss_of_rank(losses.bases.output, bases.output);
}

MixtureShape smallest_mixture(Form form, const MixtureSizes& sizes, int64_t block) {
  MixtureShape shape = sizes.whole();
  if (has_bases(form) && block < sizes.hidden) shape.bases = {block, block};
  if (has_fewer_neurons(form)) std::ranges::fill(shape.neurons, std::min(block, sizes.inner));
  return shape;
}

Result<int64_t> uniform_basis(const MixtureSizes& sizes, const RankRule& rule) {
  const auto neurons = static_cast<double>(3 * sizes.experts * sizes.inner);
  const auto hidden = static_cast<double>(sizes.hidden);
  const double exact = neurons * hidden * (1.0 - rule.ratio) / (neurons + 2.0 * hidden);
  const int64_t rank = nearest_whole(exact / static_cast<double>(rule.block)) * rule.block;
  MixtureShape shape = sizes.whole();
  shape.bases = {rank, rank};
  if (rank >= 1 && rank < sizes.hidden && sizes.parameters(shape) < sizes.dense_parameters()) {
    return rank;
  }
  return fail("ratio {} with block {} gives bases of {} of {}, {}; use {} ratio or a smaller block",
              rule.ratio, rule.block, rank, sizes.hidden,
              rank < 1 ? "which keep nothing" : "which save nothing",
              rank < 1 ? "a smaller" : "a larger");
}

std::vector<MixtureShape> find_mixture_shapes(Form form, const MixtureSizes& sizes, int64_t block,
                                              const std::vector<MixtureLosses>& layers,
                                              int64_t budget) {
  return MixtureSearch(form, sizes, block, layers).run(budget);
}

}  // namespace neuronmm::compress
