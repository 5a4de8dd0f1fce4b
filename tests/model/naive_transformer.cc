#include "model/naive_transformer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace neuronmm::model {
namespace {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;

class Naive {
 public:
  Naive(const io::ModelConfig& config, const TestTensors& tensors,
        std::vector<NaiveMlpRows>* mlp_rows = nullptr)
      : config_(config), tensors_(tensors), mlp_rows_(mlp_rows) {}

  Rows logits(const std::vector<TokenId>& tokens) {
    Rows hidden;
    for (TokenId token : tokens) {
      const float* row =
          get("model.embed_tokens.weight").values.data() + token * config_.hidden_size;
      Vector& x = hidden.emplace_back(row, row + config_.hidden_size);
      for (double& value : x) value *= config_.embedding_scale;
    }
    for (layer_ = 0; layer_ < config_.num_hidden_layers; ++layer_)
      run_layer(fmt::format("model.layers.{}.", layer_), hidden);
    Rows result;
    for (const Vector& row : hidden) {
      const std::string head =
          config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
      Vector& logits = result.emplace_back(times(head, norm("model.norm.weight", row)));
      for (double& logit : logits) {
        logit = capped(logit / config_.logit_divisor, config_.logit_cap);
      }
    }
    return result;
  }

 private:
  void run_layer(const std::string& prefix, Rows& hidden) {
    Rows q, k, v;
    NaiveMlpRows seen;
    length_ = hidden.size();
    for (size_t i = 0; i < hidden.size(); ++i) {
      const Vector x =
          config_.input_norms ? norm(prefix + "input_layernorm.weight", hidden[i]) : hidden[i];
      q.push_back(heated(query_or_key(prefix, "q", x, i), i));
      k.push_back(query_or_key(prefix, "k", x, i));
      v.push_back(clamped(project(prefix, "v", x)));
      seen.attention.push_back(x);
    }
    for (size_t i = 0; i < hidden.size(); ++i) {
      seen.mixed.push_back(mixed(q[i], k, seen.attention, i));
      seen.heads.push_back(attend(q[i], k, v, i));
      add(output(prefix + "self_attn.", project(prefix, "o", seen.heads.back())), hidden[i]);
      const Vector x = config_.input_norms
                           ? norm(prefix + "post_attention_layernorm.weight", hidden[i])
                           : hidden[i];
      add(output(prefix + "mlp.", config_.is_mixture(layer_) ? mixture(prefix + "mlp.", x, seen)
                                                             : mlp(prefix + "mlp.", x, seen)),
          hidden[i]);
    }
    seen.hidden = hidden;
    if (mlp_rows_ != nullptr) mlp_rows_->push_back(std::move(seen));
  }

  // Returns what an output of attention or of the MLP adds to the hidden state.
  Vector output(const std::string& prefix, const Vector& x) const {
    Vector y = config_.output_norms ? norm(prefix + "output_norm.weight", x) : x;
    for (double& value : y) value *= config_.residual_scale;
    return y;
  }

  Vector query_or_key(const std::string& prefix, const std::string& letter, const Vector& x,
                      size_t position) const {
    const std::string name = prefix + "self_attn." + letter + "_norm.weight";
    const Vector y = project(prefix, letter, x);
    switch (config_.qk_norm) {
      case io::QkNorm::kNone:
        return rotated(clamped(y), position);
      case io::QkNorm::kWholeWidth:
        return rotated(clamped(norm(name, y)), position);
      case io::QkNorm::kPerHead:
        break;
    }
    return config_.qk_norm_after_rope ? head_norm(name, rotated(y, position))
                                      : rotated(clamped(head_norm(name, y)), position);
  }

  Vector clamped(Vector x) const {
    if (config_.qkv_clamp == 0.0) return x;
    for (double& value : x)
      value = std::max(-config_.qkv_clamp, std::min(config_.qkv_clamp, value));
    return x;
  }

  // Sums the outputs of the experts with the largest logits of the router.
  Vector mixture(const std::string& prefix, const Vector& x, NaiveMlpRows& seen) const {
    const Vector logits = biased(prefix + "router.bias", times(prefix + "router.weight", x));
    std::vector<size_t> order(logits.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    const auto active = static_cast<size_t>(config_.experts->active);
    double total = 0.0;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i < active || !config_.experts->divided) total += std::exp(logits[order[i]]);
    }
    Vector y(x.size());
    for (size_t i = 0; i < active; ++i) {
      Vector of_expert = mlp(fmt::format("{}experts.{}.", prefix, order[i]), x, seen);
      for (double& value : of_expert) value *= std::exp(logits[order[i]]) / total;
      add(of_expert, y);
    }
    return y;
  }

  double gated(double gate, double up) const {
    if (config_.activation != Activation::kClampedSwiglu) return activated(gate) * up;
    const double limit = config_.swiglu_clamp.limit, alpha = config_.swiglu_clamp.alpha;
    const double g = std::min(gate, limit), u = std::max(-limit, std::min(limit, up));
    return (u + 1.0) * g / (1.0 + std::exp(-alpha * g));
  }

  Vector heated(Vector q, size_t position) const {
    if (config_.query_temperature.beta == 0.0) return q;
    const auto contexts = static_cast<double>(static_cast<int64_t>(position) /
                                              config_.query_temperature.original_context);
    for (double& value : q) {
      value *= 1.0 + config_.query_temperature.beta * std::log(1.0 + contexts);
    }
    return q;
  }

  static double capped(double value, double cap) {
    return cap == 0.0 ? value : cap * std::tanh(value / cap);
  }

  double activated(double z) const {
    if (config_.activation == Activation::kSilu) return z / (1.0 + std::exp(-z));
    const double inner = std::sqrt(2.0 / M_PI) * (z + 0.044715 * std::pow(z, 3.0));
    return 0.5 * z * (1.0 + std::tanh(inner));
  }

  Vector biased(const std::string& name, Vector y) const {
    const auto bias = tensors_.find(name);
    if (bias == tensors_.end()) return y;
    for (size_t j = 0; j < y.size(); ++j) y[j] += static_cast<double>(bias->second.values[j]);
    return y;
  }

  // Returns the product with a matrix of the MLP, dense or in two factors, without its bias.
  Vector mlp_times(const std::string& which, const Vector& x) const {
    const std::string dense = which + "_proj.weight";
    if (tensors_.contains(dense)) return times(dense, x);
    return times(which + "_u_proj.weight", times(which + "_v_proj.weight", x));
  }

  Vector mlp(const std::string& prefix, const Vector& row, NaiveMlpRows& seen) const {
    const Vector x = narrowed(prefix + "input", row);
    Vector inner =
        biased(prefix + "gate_proj.bias", mlp_times(prefix + "gate", narrowed(prefix + "gate", x)));
    const Vector up =
        biased(prefix + "up_proj.bias", mlp_times(prefix + "up", narrowed(prefix + "up", x)));
    seen.input.push_back(row);
    seen.gate.push_back(inner);
    seen.up.push_back(up);
    for (size_t j = 0; j < inner.size(); ++j) inner[j] = gated(inner[j], up[j]);
    return biased(prefix + "down_proj.bias",
                  widened(prefix + "down", mlp_times(prefix + "down", inner)));
  }

  // Returns for each of `size` elements its place among the pivots, or minus one minus its place
  // among the others.
  std::vector<int64_t> places(const std::string& which, size_t size) const {
    std::vector<int64_t> place(size, -1);
    const std::vector<float>& pivots = get(which + "_pivots").values;
    for (size_t i = 0; i < pivots.size(); ++i)
      place[static_cast<size_t>(pivots[i])] = static_cast<int64_t>(i);
    int64_t others = 0;
    for (int64_t& p : place) {
      if (p < 0) p = -1 - others++;
    }
    return place;
  }

  // Returns x[pivots] + D·x[others], or x if there are no pivots.
  Vector narrowed(const std::string& which, const Vector& x) const {
    if (!tensors_.contains(which + "_pivots")) return x;
    const std::vector<int64_t> place = places(which, x.size());
    Vector others, t(get(which + "_pivots").values.size());
    for (size_t j = 0; j < x.size(); ++j) {
      if (place[j] < 0)
        others.push_back(x[j]);
      else
        t[static_cast<size_t>(place[j])] = x[j];
    }
    add(times(which + "_pivot_proj.weight", others), t);
    return t;
  }

  // Returns y with y[pivots] = z and y[others] = C·z, or z if there are no pivots.
  Vector widened(const std::string& which, const Vector& z) const {
    if (!tensors_.contains(which + "_pivots")) return z;
    const Vector others = times(which + "_pivot_proj.weight", z);
    const std::vector<int64_t> place = places(which, z.size() + others.size());
    Vector y;
    for (const int64_t p : place)
      y.push_back(p < 0 ? others[static_cast<size_t>(-1 - p)] : z[static_cast<size_t>(p)]);
    return y;
  }

  Vector project(const std::string& prefix, const std::string& letter, const Vector& x) const {
    const std::string stem = prefix + "self_attn." + letter + "_proj.";
    return biased(stem + "bias", times(stem + "weight", x));
  }

  Vector head_norm(const std::string& name, const Vector& x) const {
    Vector result;
    for (auto head = x.begin(); head != x.end(); head += config_.head_dim) {
      const Vector normed = norm(name, Vector(head, head + config_.head_dim));
      result.insert(result.end(), normed.begin(), normed.end());
    }
    return result;
  }

  // Returns x·cos + rotate_half(x)·sin, as Hugging Face's apply_rotary_pos_emb computes it.
  Vector rotated(const Vector& x, size_t position) const {
    const io::LayerAttention own = config_.attention_of(layer_);
    if (own.rope == io::kNoRope) return x;
    const io::RopeTable& table = config_.ropes[static_cast<size_t>(own.rope)];
    const auto head = static_cast<size_t>(config_.head_dim);
    const auto dim =
        static_cast<size_t>(table.rotary_width > 0 ? table.rotary_width : config_.head_dim);
    const auto* const longrope = std::get_if<io::LongRopeScaling>(&table.scaling);
    const auto* const linear = std::get_if<io::LinearRopeScaling>(&table.scaling);
    const double scale = longrope != nullptr ? longrope->attention_factor.value() : 1.0;
    const bool is_long = longrope != nullptr && !longrope->long_factor.empty() &&
                         static_cast<double>(length_) > longrope->original_max_position_embeddings;
    Vector y = x;
    for (size_t c = 0; c < x.size(); ++c) {
      const size_t j = c % head;
      if (j >= dim) continue;
      double stretched = linear != nullptr ? linear->factor : 1.0;
      if (longrope != nullptr) {
        stretched = (is_long ? longrope->long_factor : longrope->short_factor)[j % (dim / 2)];
      }
      const double exponent = static_cast<double>(2 * (j % (dim / 2))) / static_cast<double>(dim);
      const double angle =
          static_cast<double>(position) / (stretched * std::pow(table.theta, exponent));
      const double turned = j < dim / 2 ? -x[c + dim / 2] : x[c - dim / 2];
      y[c] = scale * (x[c] * std::cos(angle) + turned * std::sin(angle));
    }
    return y;
  }

  Vector attend(const Vector& q, const Rows& k, const Rows& v, size_t position) const {
    const auto dim = static_cast<size_t>(config_.head_dim);
    const auto group =
        static_cast<size_t>(config_.num_attention_heads / config_.num_key_value_heads);
    const auto window = static_cast<size_t>(config_.attention_of(layer_).window);
    Vector y(q.size());
    for (size_t head = 0; head < q.size() / dim; ++head) {
      const size_t at = head * dim, kv_at = head / group * dim;
      double total = 0.0;
      if (config_.attention_sinks) {
        const std::string sinks = fmt::format("model.layers.{}.self_attn.sinks", layer_);
        total = std::exp(static_cast<double>(get(sinks).values[head]));
      }
      for (size_t j = 0; j <= position; ++j) {
        if (window > 0 && position - j >= window) continue;
        double score = 0.0;
        for (size_t d = 0; d < dim; ++d) score += q[at + d] * k[j][kv_at + d];
        const double scaled = config_.score_scale != 0.0
                                  ? score * config_.score_scale
                                  : score / std::sqrt(static_cast<double>(dim));
        const double weight = std::exp(capped(scaled, config_.score_cap));
        total += weight;
        for (size_t d = 0; d < dim; ++d) y[at + d] += weight * v[j][kv_at + d];
      }
      for (size_t d = 0; d < dim; ++d) y[at + d] /= total;
    }
    return y;
  }

  // Mixes rows of x by a head's attention weights: slices of x take the place of v, a head's width
  // at a time.
  Vector mixed(const Vector& q, const Rows& k, const Rows& x, size_t position) const {
    const auto dim = static_cast<size_t>(config_.head_dim);
    const size_t head = position % static_cast<size_t>(config_.num_attention_heads);
    Vector out;
    for (size_t first = 0; first < x[0].size(); first += dim) {
      Rows slices;
      for (const Vector& row : x) {
        Vector& slice = slices.emplace_back(k[0].size());
        for (size_t j = 0; j < slice.size() && first + j % dim < row.size(); ++j) {
          slice[j] = row[first + j % dim];
        }
      }
      const Vector y = attend(q, k, slices, position);
      for (size_t d = 0; d < dim && first + d < x[0].size(); ++d) out.push_back(y[head * dim + d]);
    }
    return out;
  }

  Vector norm(const std::string& name, const Vector& x) const {
    const TestTensor& weight = get(name);
    double squares = 0.0;
    for (double value : x) squares += value * value;
    const double root = std::sqrt(squares / static_cast<double>(x.size()) + config_.rms_norm_eps);
    Vector y = x;
    for (size_t j = 0; j < x.size(); ++j) {
      y[j] *= (static_cast<double>(weight.values[j]) + config_.gain_offset) / root;
    }
    return y;
  }

  Vector times(const std::string& name, const Vector& x) const {
    const TestTensor& weight = get(name);
    Vector y(static_cast<size_t>(weight.shape[0]));
    for (size_t n = 0; n < y.size(); ++n) {
      for (size_t j = 0; j < x.size(); ++j)
        y[n] += static_cast<double>(weight.values[n * x.size() + j]) * x[j];
    }
    return y;
  }

  static void add(const Vector& x, Vector& y) {
    for (size_t j = 0; j < x.size(); ++j) y[j] += x[j];
  }
  const TestTensor& get(const std::string& name) const { return tensors_.at(name); }

  const io::ModelConfig& config_;
  const TestTensors& tensors_;
  int64_t layer_ = 0;  // the layer that is computed
  size_t length_ = 0;  // of the sequence
  std::vector<NaiveMlpRows>* mlp_rows_;
};

}  // namespace

std::vector<std::vector<double>> naive_logits(const io::ModelConfig& config,
                                              const TestTensors& tensors,
                                              const std::vector<TokenId>& tokens) {
  return Naive(config, tensors).logits(tokens);
}

std::vector<NaiveMlpRows> naive_mlp_rows(const io::ModelConfig& config, const TestTensors& tensors,
                                         const std::vector<TokenId>& tokens) {
  std::vector<NaiveMlpRows> rows;
  Naive(config, tensors, &rows).logits(tokens);
  return rows;
}

}  // namespace neuronmm::model
