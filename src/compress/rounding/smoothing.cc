#include "compress/rounding/smoothing.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "model/layer_weights.h"

namespace neuronmm::compress {
namespace {

using Values = std::vector<double>;

// The largest factor. Larger ones would leave the range in which norms and weights are stored
// accurately. Assumed; on SmolLM2 all factors are below 60 (measured).
constexpr double kLargestFactor = 1e3;

Values row_of(const ops::WeightView& weight, int64_t i) {
  Values row(static_cast<size_t>(weight.columns()));
  to_doubles(weight, i * weight.columns(), weight.columns(), row.data());
  return row;
}

// Returns the sum of squares of every column. If row_squares is given, the squares of row i count
// row_squares[i] times.
Values column_squares(const ops::WeightView& weight, const Values& row_squares = {}) {
  Values sums(static_cast<size_t>(weight.columns()));
  for (int64_t i = 0; i < weight.rows(); ++i) {
    const Values row = row_of(weight, i);
    const double times = row_squares.empty() ? 1.0 : row_squares[static_cast<size_t>(i)];
    for (size_t j = 0; j < row.size(); ++j) sums[j] += times * row[j] * row[j];
  }
  return sums;
}

// Takes the squares of the pivots to those of the full vector. The contributions that reach another
// element through several pivots are assumed to be independent.
Values before_pivots(const ops::Pivots& pivots, const Values& squares) {
  Values all(static_cast<size_t>(pivots.features()));
  const Values of_others = column_squares(pivots.map_t, squares);
  const std::vector<int32_t> others = ops::non_pivots(pivots);
  for (size_t i = 0; i < others.size(); ++i) all[static_cast<size_t>(others[i])] = of_others[i];
  for (size_t i = 0; i < pivots.index.size(); ++i) {
    all[static_cast<size_t>(pivots.index[i])] = squares[i];
  }
  return all;
}

// Returns how much each element of the input contributes to the output, as a sum of squares, if all
// inputs have size 1.
Values input_squares(const ops::LinearWeight& linear) {
  if (linear.low_rank()) return column_squares(linear.u_t, column_squares(linear.v_t));
  if (!linear.out.empty()) {
    Values of_rank = column_squares(linear.out.map_t);
    for (double& value : of_rank) value += 1.0;
    return column_squares(linear.w_t, of_rank);
  }
  const Values squares = column_squares(linear.w_t);
  return linear.in.empty() ? squares : before_pivots(linear.in, squares);
}

Values sum_of(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Values inverse(Values values) {
  for (double& value : values) value = 1.0 / value;
  return values;
}

template <typename Index>
Values picked(const Values& values, const std::vector<Index>& index) {
  Values out;
  for (const Index i : index) out.push_back(values[static_cast<size_t>(i)]);
  return out;
}

// Returns the factors s of all channels, scaled to a geometric mean of 1. A channel that is always
// 0, or that nothing reads, gets the factor 1.
Values factors(const Values& sizes, const Values& squares, double exponent) {
  Values logs(sizes.size());
  double sum = 0.0;
  int64_t count = 0;
  for (size_t c = 0; c < sizes.size(); ++c) {
    if (!(sizes[c] > 0.0 && squares[c] > 0.0)) continue;
    logs[c] = exponent * (std::log(sizes[c]) - 0.5 * std::log(squares[c]));
    sum += logs[c];
    ++count;
  }
  const double mean = count > 0 ? sum / static_cast<double>(count) : 0.0;
  Values out(sizes.size(), 1.0);
  for (size_t c = 0; c < sizes.size(); ++c) {
    if (!(sizes[c] > 0.0 && squares[c] > 0.0)) continue;
    out[c] = std::clamp(std::exp(logs[c] - mean), 1.0 / kLargestFactor, kLargestFactor);
  }
  return out;
}

// Returns the factors by which `vector` is multiplied in order to be divided by s and rounded to
// its dtype. Changes `s` to the exact quotients after that rounding. With an offset, what is
// divided is the stored value plus the offset (TensorScale).
Values divisors(const TensorView& vector, Values& s, double offset = 0.0) {
  DoubleMatrix values(1, vector.size());
  to_doubles(vector, 0, vector.size(), values.data());
  DoubleMatrix divided = values;
  for (int64_t i = 0; i < values.size(); ++i) {
    divided(0, i) = (values(0, i) + offset) / s[static_cast<size_t>(i)] - offset;
  }
  round_to(vector.dtype, divided);
  for (int64_t i = 0; i < values.size(); ++i) {
    if (values(0, i) + offset == 0.0) continue;
    const double exact = (values(0, i) + offset) / (divided(0, i) + offset);
    s[static_cast<size_t>(i)] = std::isfinite(exact) && exact > 0.0 ? exact : 1.0;
  }
  return inverse(s);
}

// Collects the factors of all tensors, layer by layer.
class Smoothing {
 public:
  Smoothing(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
            const SmoothingExponent& exponent)
      : checkpoint_(checkpoint),
        config_(config),
        exponent_(exponent),
        prefix_(model::tensor_prefix(checkpoint)) {}

  Status add_layer(int64_t layer, const ChannelSizes& sizes) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, layer));
    at_ = fmt::format("{}layers.{}.", prefix_, layer);
    NMM_TRY(check(sizes, weights));
    smooth_projections(weights, sizes.projections);
    smooth_heads(weights, sizes.heads);
    if (weights.mixture) {
      for (size_t e = 0; e < sizes.experts.size(); ++e) {
        smooth_neurons(fmt::format("mlp.experts.{}.", e), weights.mixture->experts[e],
                       sizes.experts[e]);
      }
    } else {
      smooth_mlp(weights, sizes.mlp);
      smooth_neurons("mlp.", weights.mlp, sizes.neurons);
    }
    checkpoint_.release_pages();
    return {};
  }

  Status add_head(const Values& sizes) {
    if (config_.tie_word_embeddings) return {};
    const std::string name = "lm_head.weight";
    NMM_ASSIGN(const TensorView weight,
               checkpoint_.require(name, {config_.vocab_size, config_.hidden_size}));
    NMM_ASSIGN(const TensorView norm,
               checkpoint_.require(prefix_ + "norm.weight", {config_.hidden_size}));
    Values s = factors(sizes, column_squares(weight), exponent_(name));
    scales_[prefix_ + "norm.weight"] = norm_scale(norm, s);
    scales_[name].columns = s;
    checkpoint_.release_pages();
    return {};
  }

  TensorScales take() { return std::move(scales_); }

 private:
  Status check(const ChannelSizes& sizes, const model::LayerWeights& weights) const {
    const auto fits = [](const Values& values, int64_t count) {
      return std::ssize(values) == count;
    };
    NMM_CHECK(fits(sizes.projections, config_.hidden_size) &&
              fits(sizes.heads, weights.o.in_features()));
    if (weights.mixture) {
      NMM_CHECK(sizes.experts.size() == weights.mixture->experts.size());
    } else {
      NMM_CHECK(fits(sizes.mlp, config_.hidden_size) && fits(sizes.neurons, weights.mlp.neurons()));
    }
    std::vector<const Values*> all = {&sizes.projections, &sizes.heads, &sizes.mlp, &sizes.neurons};
    for (const Values& expert : sizes.experts) all.push_back(&expert);
    for (const Values* values : all) {
      if (std::ranges::all_of(*values, [](double value) { return std::isfinite(value); })) continue;
      return fail("{}: {}: the text makes NaN or infinity of what it reads",
                  checkpoint_.folder().string(), at_.substr(0, at_.size() - 1));
    }
    return {};
  }

  // Returns how the gains of a norm change so that its outputs are divided by s.
  TensorScale norm_scale(const TensorView& gains, Values& s) const {
    return {.rows = divisors(gains, s, config_.gain_offset), .offset = config_.gain_offset};
  }

  TensorScale& scale(const std::string& name) { return scales_[at_ + name]; }

  // Returns the name of the tensor that the input of a linear layer is multiplied by.
  static std::string first_of(const std::string& stem, const ops::LinearWeight& linear) {
    return stem + (linear.low_rank() ? "_v_proj.weight" : "_proj.weight");
  }

  // Returns the smallest exponent of these tensors.
  double smallest(std::initializer_list<std::string> tensors) const {
    double least = 1.0;
    for (const std::string& tensor : tensors) least = std::min(least, exponent_(at_ + tensor));
    return least;
  }

  // Without a norm of the input there is nothing that could be divided.
  void smooth_projections(const model::LayerWeights& weights, const Values& sizes) {
    if (weights.input_norm.empty()) return;
    Values squares(sizes.size());
    for (const auto* linear : {&weights.q, &weights.k, &weights.v}) {
      squares = sum_of(std::move(squares), input_squares(*linear));
    }
    Values s = factors(sizes, squares,
                       smallest({"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                 "self_attn.v_proj.weight"}));
    scale("input_layernorm.weight") = norm_scale(weights.input_norm, s);
    for (const char letter : {'q', 'k', 'v'}) {
      scale(fmt::format("self_attn.{}_proj.weight", letter)).columns = s;
    }
  }

  // Smooths the input of o. Each element of a value head is read through every query head of its
  // group, so all of them share its factor.
  void smooth_heads(const model::LayerWeights& weights, const Values& sizes) {
    const int64_t dim = config_.head_dim, values = config_.num_key_value_heads * dim;
    const int64_t group = config_.num_attention_heads / config_.num_key_value_heads;
    const Values squares = input_squares(weights.o);
    Values shared_sizes(static_cast<size_t>(values)), shared_squares(shared_sizes.size());
    std::vector<int64_t> of_head(sizes.size());
    for (int64_t i = 0; i < std::ssize(sizes); ++i) {
      const int64_t head = i / dim / group, at = head * dim + i % dim;
      of_head[static_cast<size_t>(i)] = at;
      const auto from = static_cast<size_t>(i), to = static_cast<size_t>(at);
      shared_sizes[to] += sizes[from] * sizes[from];
      shared_squares[to] += squares[from];
    }
    for (double& value : shared_sizes) value = std::sqrt(value);
    Values s = factors(shared_sizes, shared_squares, smallest({"self_attn.o_proj.weight"}));
    if (const TensorView& bias = weights.v.bias; !bias.empty()) {
      scale("self_attn.v_proj.bias").rows = divisors(bias, s);
    }
    scale("self_attn.v_proj.weight").rows = inverse(s);
    scale("self_attn.o_proj.weight").columns = picked(s, of_head);
  }

  void smooth_mlp(const model::LayerWeights& weights, const Values& sizes) {
    if (weights.post_attention_norm.empty()) return;
    const ops::MlpWeight& mlp = weights.mlp;
    const Values squares = sum_of(input_squares(mlp.gate), input_squares(mlp.up));
    Values s = factors(sizes, mlp.in.empty() ? squares : before_pivots(mlp.in, squares),
                       smallest({first_of("mlp.gate", mlp.gate), first_of("mlp.up", mlp.up)}));
    scale("post_attention_layernorm.weight") = norm_scale(weights.post_attention_norm, s);
    if (!mlp.in.empty()) {
      const Values of_pivots = scale_pivots("mlp.input", mlp.in, s);
      scale("mlp.gate_proj.weight").columns = of_pivots;
      scale("mlp.up_proj.weight").columns = of_pivots;
      return;
    }
    for (const auto& [stem, linear] :
         {std::pair("mlp.gate", &mlp.gate), std::pair("mlp.up", &mlp.up)}) {
      const std::string name(stem);
      scale(first_of(name, *linear)).columns =
          linear->in.empty() ? s : scale_pivots(name, linear->in, s);
    }
  }

  // The narrowed input of x / s is t / s_P if the map's rows are divided by s_P and its columns
  // multiplied by s, where t = x_P + D·x_others. Returns s_P, the factors of the pivots.
  Values scale_pivots(const std::string& stem, const ops::Pivots& pivots, const Values& s) {
    const Values of_pivots = picked(s, pivots.index);
    TensorScale& map = scale(stem + "_pivot_proj.weight");
    map.rows = inverse(of_pivots);
    map.columns = picked(s, ops::non_pivots(pivots));
    return of_pivots;
  }

  // `stem` is "mlp." or "mlp.experts.N.".
  void smooth_neurons(const std::string& stem, const ops::MlpWeight& mlp, const Values& sizes) {
    if (mlp.activation == Activation::kClampedSwiglu) return;
    const std::string down = first_of(stem + "down", mlp.down);
    Values s = factors(sizes, input_squares(mlp.down), smallest({down}));
    if (!mlp.up.bias.empty()) scale(stem + "up_proj.bias").rows = divisors(mlp.up.bias, s);
    scale(stem + (mlp.up.low_rank() ? "up_u_proj.weight" : "up_proj.weight")).rows = inverse(s);
    scale(down).columns = s;
  }

  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const SmoothingExponent& exponent_;
  std::string prefix_, at_;
  TensorScales scales_;
};

}  // namespace

Result<TensorScales> smoothing_scales(const io::Checkpoint& checkpoint,
                                      const io::ModelConfig& config, const ChannelSizesOf& sizes,
                                      const Values& head, const SmoothingExponent& exponent) {
  Smoothing smoothing(checkpoint, config, exponent);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(const ChannelSizes of_layer, sizes(layer));
    NMM_TRY(smoothing.add_layer(layer, of_layer));
  }
  NMM_TRY(smoothing.add_head(head));
  return smoothing.take();
}

std::vector<float> scaled_values(const TensorView& tensor, const TensorScale& scale) {
  const int64_t rows = tensor.rows(), columns = tensor.size() / rows;
  std::vector<float> out(static_cast<size_t>(tensor.size()));
  parallel_ranges(rows, [&](int64_t first, int64_t last) {
    Values row(static_cast<size_t>(columns));
    for (int64_t i = first; i < last; ++i) {
      to_doubles(tensor, i * columns, columns, row.data());
      const double of_row = scale.rows.empty() ? 1.0 : scale.rows[static_cast<size_t>(i)];
      for (size_t j = 0; j < row.size(); ++j) {
        const double of_column = scale.columns.empty() ? 1.0 : scale.columns[j];
        const double value = (row[j] + scale.offset) * of_row * of_column - scale.offset;
        out[static_cast<size_t>(i * columns) + j] = static_cast<float>(value);
      }
    }
  });
  return out;
}

Status visit_scaled(const TensorScales& scales, const std::string& name, const TensorView& tensor,
                    const std::function<Status(const TensorView&)>& visit) {
  const auto found = scales.find(name);
  if (found == scales.end()) return visit(tensor);
  const std::vector<float> values = scaled_values(tensor, found->second);
  const TensorView scaled = {DType::kF32, tensor.shape,
                             reinterpret_cast<const std::byte*>(values.data())};
  if (tensor.shape.size() > 1 || tensor.dtype == DType::kF32) return visit(scaled);
  DoubleMatrix vector(1, tensor.size());
  to_doubles(scaled, 0, scaled.size(), vector.data());
  const auto bytes = to_checkpoint(vector, tensor.dtype);
  return visit({tensor.dtype, tensor.shape, bytes.data()});
}

DoubleMatrix scaled_matrix(const TensorScales& scales, const std::string& name,
                           const io::Checkpoint& checkpoint) {
  DoubleMatrix values;
  const TensorView& tensor = checkpoint.tensors().at(name);
  const Status visited = visit_scaled(scales, name, tensor, [&](const TensorView& scaled) {
    values = to_double_matrix(scaled);
    return Status();
  });
  NMM_CHECK(visited.ok());
  checkpoint.release_pages();
  return values;
}

}  // namespace neuronmm::compress
