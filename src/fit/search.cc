#include "fit/search.h"

#include <algorithm>

namespace neuronmm::fit {
namespace {

Quantities operator+(Quantities a, const Quantities& b) {
  for (size_t k = 0; k < kQuantities; ++k) a[k] += b[k];
  return a;
}

bool dominates(const Quantities& a, const Quantities& b) {
  for (size_t k = 0; k < kQuantities; ++k) {
    if (a[k] > b[k]) return false;
  }
  return true;
}

// Removes every option that is no better than another one in any quantity. Of equal options the
// first stays.
template <typename Option>
std::vector<Option> pareto_optimal(std::vector<Option> options) {
  std::ranges::stable_sort(
      options, [](const Option& a, const Option& b) { return a.costs[kLoss] < b.costs[kLoss]; });
  std::vector<Option> kept;
  for (const Option& option : options) {
    if (std::ranges::none_of(kept,
                             [&](const Option& k) { return dominates(k.costs, option.costs); })) {
      kept.push_back(option);
    }
  }
  return kept;
}

}  // namespace

bool narrows(const Choice& choice) {
  return std::ranges::any_of(choice.shapes,
                             [](const io::MlpShape& shape) { return shape != io::MlpShape{}; });
}

ModelSearch::ModelSearch(const SearchInputs& inputs, const Correction& correction)
    : inputs_(inputs),
      correction_(correction),
      sizes_{inputs.config.hidden_size, inputs.config.intermediate_size},
      bytes_(inputs.checkpoint, inputs.config, inputs.embedding_bits) {
  const auto layers = static_cast<size_t>(inputs.config.num_hidden_layers);
  as_is_.resize(layers);
  rounded_.resize(layers);
  // Timing a shape on a simulated device takes long only the first time, because Costs remembers
  // it.
  for (size_t layer = 0; layer < layers; ++layer) {
    const std::vector<io::MlpShape> shapes = shapes_of(layer);
    const auto add = [&](const io::MlpShape& shape, size_t g, size_t d,
                         std::vector<MlpOption>& to) {
      if (const auto costs = mlp(static_cast<int64_t>(layer), shape, g, d)) {
        to.push_back({shape, g, d, *costs});
      }
    };
    for (const io::MlpShape& shape : shapes) {
      add(shape, kAsIs, kAsIs, as_is_[layer]);
      for (size_t g = 0; inputs.rounding && g < kFormats; ++g) {
        for (size_t d = 0; d < kFormats; ++d) add(shape, g, d, rounded_[layer]);
      }
    }
    as_is_[layer] = pareto_optimal(std::move(as_is_[layer]));
    rounded_[layer] = pareto_optimal(std::move(rounded_[layer]));
  }
  dense_ = predict(uniform(kAsIs, kAsIs));
}

std::vector<io::MlpShape> ModelSearch::shapes_of(size_t layer) const {
  if (inputs_.shapes.empty()) return {io::MlpShape{}};
  std::vector<io::MlpShape> shapes;
  for (const compress::Form form : {compress::Form::kMixed, compress::Form::kPivoted}) {
    for (const io::MlpShape& shape :
         compress::hull_shapes(form, sizes_, inputs_.block, inputs_.shapes[layer])) {
      shapes.push_back(shape);
    }
  }
  return shapes;
}

// Returns the costs of an embedding table that is not the LM head.
Quantities ModelSearch::table(size_t format) const {
  Quantities costs = {};
  if (inputs_.config.tie_word_embeddings) return costs;
  costs[kBytes] = bytes_.table(format);
  if (format != kAsIs) costs[kLoss] = correction_.rounding * inputs_.rounding->embedding[format];
  return costs;
}

Quantities ModelSearch::with_times(Quantities costs, const Seconds& seconds) const {
  costs[kDecode] = correction_.decode * seconds.decode;
  costs[kPrefill] = correction_.prefill * seconds.prefill;
  return costs;
}

Quantities ModelSearch::head(size_t format) const {
  Quantities costs = {};
  if (format != kAsIs) costs[kLoss] = correction_.rounding * inputs_.rounding->head[format];
  costs[kBytes] = bytes_.head(format);
  return with_times(costs, inputs_.costs.head(format));
}

// Returns the costs of everything that no choice of formats changes.
Quantities ModelSearch::fixed_costs(bool rounded) const {
  Quantities costs = {};
  costs[kBytes] = bytes_.fixed();
  if (rounded) costs[kLoss] = inputs_.rounding->activations;
  return with_times(costs, inputs_.costs.rest());
}

// Returns the part's share, by parameters, of the time of all of attention's projections.
Quantities ModelSearch::attention(int64_t layer, Part part, size_t format) const {
  const io::ModelConfig& config = inputs_.config;
  const int64_t hidden = config.hidden_size;
  const int64_t queries = config.num_attention_heads * config.head_dim;
  const int64_t keys = config.num_key_value_heads * config.head_dim;
  Quantities costs = {};
  if (format != kAsIs) {
    costs[kLoss] =
        correction_.rounding * inputs_.rounding->layers[static_cast<size_t>(layer)][part][format];
  }
  int64_t rows = keys;
  if (part == kQueriesAndKeys) rows = queries + keys;
  costs[kBytes] = bytes_.attention(part, format);
  const int64_t parameters = part == kAttentionOutput ? hidden * queries : rows * hidden;
  const double share =
      static_cast<double>(parameters) / static_cast<double>(2 * hidden * (queries + keys));
  return with_times(costs, share * inputs_.costs.attention(format));
}

// Losses by rounding are scaled by the share of parameters that is left.
std::optional<Quantities> ModelSearch::mlp(int64_t layer, const io::MlpShape& shape, size_t gate,
                                           size_t down) const {
  const auto seconds = inputs_.costs.mlp(shape, gate, down);
  if (!seconds) return std::nullopt;
  const auto at = static_cast<size_t>(layer);
  const int64_t hidden = sizes_.hidden, inner = sizes_.inner;
  const int64_t neurons = shape.neurons > 0 ? shape.neurons : inner;
  const auto width = [&](int64_t own) {
    return shape.input > 0 ? shape.input : own > 0 ? own : hidden;
  };
  const int64_t out = shape.down > 0 ? shape.down : hidden;
  Quantities costs = {};
  if (!inputs_.shapes.empty()) {
    costs[kLoss] = correction_.shapes * compress::loss_of(inputs_.shapes[at], shape);
  }
  if (gate != kAsIs) {
    const auto& losses = inputs_.rounding->layers[at];
    const double gate_and_up_share =
        static_cast<double>(neurons * (width(shape.gate) + width(shape.up))) /
        static_cast<double>(2 * inner * hidden);
    const double down_share =
        static_cast<double>(out * neurons) / static_cast<double>(hidden * inner);
    costs[kLoss] += correction_.rounding * (losses[kGateAndUp][gate] * gate_and_up_share +
                                            losses[kDown][down] * down_share);
  }
  costs[kBytes] = bytes_.mlp(shape, gate, down);
  return with_times(costs, *seconds);
}

Quantities ModelSearch::predict(const Choice& choice) const {
  Quantities sum = fixed_costs(choice.rounded) + head(choice.head) + table(choice.table);
  for (size_t layer = 0; layer < choice.shapes.size(); ++layer) {
    const auto index = static_cast<int64_t>(layer);
    const auto& formats = choice.formats[layer];
    for (const Part part : kAttentionParts) sum = sum + attention(index, part, formats[part]);
    const auto mlp_costs = mlp(index, choice.shapes[layer], formats[kGateAndUp], formats[kDown]);
    NMM_CHECK(mlp_costs.has_value());
    sum = sum + *mlp_costs;
  }
  return sum;
}

Choice ModelSearch::uniform(size_t format, size_t head) const {
  const auto layers = static_cast<size_t>(inputs_.config.num_hidden_layers);
  Choice choice{.rounded = format != kAsIs, .shapes = {}, .formats = {}, .head = head};
  choice.shapes.resize(layers);
  std::array<size_t, kParts> formats;
  formats.fill(format);
  choice.formats.assign(layers, formats);
  if (!inputs_.config.tie_word_embeddings) choice.table = head;
  choice.predicted = predict(choice);
  return choice;
}

std::pair<std::optional<Choice>, Choice> ModelSearch::plain(const Goal& goal) const {
  std::optional<Choice> best;
  Choice smallest = uniform(0, 0);
  for (size_t format = 0; format < kFormats; ++format) {
    for (size_t head = 0; head < kFormats; ++head) {
      const Choice choice = uniform(format, head);
      const Quantities& at = choice.predicted;
      bool within = true;
      for (size_t k = 0; k < kQuantities; ++k) within = within && at[k] <= goal.limits[k];
      if (within && (!best || at[kLoss] < best->predicted[kLoss])) best = choice;
      if (at[kBytes] < smallest.predicted[kBytes]) smallest = choice;
    }
  }
  return {best, smallest};
}

std::optional<Choice> ModelSearch::narrowed(double kept) const {
  if (inputs_.shapes.empty()) return std::nullopt;
  Choice choice = uniform(kAsIs, kAsIs);
  const auto budget = static_cast<int64_t>(kept * static_cast<double>(sizes_.dense_parameters()) *
                                           static_cast<double>(choice.shapes.size()));
  auto found =
      compress::find_shapes(compress::Form::kMixed, sizes_, inputs_.block, inputs_.shapes, budget);
  if (!found.ok()) return std::nullopt;
  choice.shapes = std::move(found->shapes);
  for (size_t layer = 0; layer < choice.shapes.size(); ++layer) {
    if (!mlp(static_cast<int64_t>(layer), choice.shapes[layer], kAsIs, kAsIs)) return std::nullopt;
  }
  choice.predicted = predict(choice);
  return choice;
}

// The first item is the head together with everything that no choice changes, the second the table.
Items ModelSearch::items_of(bool rounded) const {
  const size_t first = rounded ? 0 : kAsIs, end = rounded ? kFormats : kAsIs + 1;
  Items items(2);
  for (const size_t format : bytes_.head_formats(rounded)) {
    items[0].push_back(fixed_costs(rounded) + head(format));
  }
  for (const size_t format : bytes_.table_formats(rounded)) items[1].push_back(table(format));
  for (size_t layer = 0; layer < as_is_.size(); ++layer) {
    for (const Part part : kAttentionParts) {
      auto& item = items.emplace_back();
      for (size_t format = first; format < end; ++format) {
        item.push_back(attention(static_cast<int64_t>(layer), part, format));
      }
    }
    auto& item = items.emplace_back();
    for (const MlpOption& option : rounded ? rounded_[layer] : as_is_[layer]) {
      item.push_back(option.costs);
    }
  }
  return items;
}

Choice ModelSearch::choice_of(bool rounded, const Selection& selection) const {
  const auto format = [&](size_t item) { return rounded ? selection.options[item] : kAsIs; };
  Choice choice{.rounded = rounded,
                .shapes = {},
                .formats = {},
                .head = bytes_.head_formats(rounded)[selection.options[0]],
                .table = bytes_.table_formats(rounded)[selection.options[1]]};
  size_t item = 2;
  for (size_t layer = 0; layer < as_is_.size(); ++layer) {
    auto& formats = choice.formats.emplace_back();
    for (const Part part : kAttentionParts) formats[part] = format(item++);
    const MlpOption& mlp = (rounded ? rounded_ : as_is_)[layer][selection.options[item++]];
    formats[kGateAndUp] = mlp.gate;
    formats[kDown] = mlp.down;
    choice.shapes.push_back(mlp.shape);
  }
  choice.predicted = selection.sums;
  choice.bound = selection.bound;
  return choice;
}

std::optional<Choice> ModelSearch::best_of(bool rounded, const Goal& goal) const {
  const auto selection = select(items_of(rounded), goal);
  if (!selection) return std::nullopt;
  return choice_of(rounded, *selection);
}

std::optional<Choice> ModelSearch::best(const Goal& goal) const {
  std::optional<Choice> best = best_of(false, goal);
  if (!inputs_.rounding) return best;
  std::optional<Choice> other = best_of(true, goal);
  if (!best) return other;
  if (!other) return best;
  const double bound = std::min(best->bound, other->bound);
  if (other->predicted[goal.minimized] < best->predicted[goal.minimized]) best = std::move(other);
  best->bound = bound;
  return best;
}

double ModelSearch::smallest(Quantity quantity) const {
  const double as_is = smallest_sum(items_of(false), quantity);
  if (!inputs_.rounding) return as_is;
  return std::min(as_is, smallest_sum(items_of(true), quantity));
}

}  // namespace neuronmm::fit
