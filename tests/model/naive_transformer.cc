#include "model/naive_transformer.h"

#include <cmath>

namespace neuronmm::model {
namespace {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;

class Naive {
 public:
  Naive(const io::ModelConfig& config, const TestTensors& tensors,
        std::vector<NaiveMlpRows>* mlp_rows = nullptr)
      : config_(config), tensors_(tensors), mlp_rows_(mlp_rows) {}

  Rows logits(const std::vector<TokenId>& tokens) const {
    Rows hidden;
    for (TokenId token : tokens) {
      const float* row =
          get("model.embed_tokens.weight").values.data() + token * config_.hidden_size;
      hidden.emplace_back(row, row + config_.hidden_size);
    }
    for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer)
      run_layer(fmt::format("model.layers.{}.", layer), hidden);
    Rows result;
    for (const Vector& row : hidden) {
      const std::string head =
          config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
      result.push_back(times(head, norm("model.norm.weight", row)));
    }
    return result;
  }

 private:
  void run_layer(const std::string& prefix, Rows& hidden) const {
    Rows q, k, v;
    NaiveMlpRows seen;
    for (size_t i = 0; i < hidden.size(); ++i) {
      const Vector x = norm(prefix + "input_layernorm.weight", hidden[i]);
      q.push_back(
          rotated(head_norm(prefix + "self_attn.q_norm.weight", project(prefix, "q", x)), i));
      k.push_back(
          rotated(head_norm(prefix + "self_attn.k_norm.weight", project(prefix, "k", x)), i));
      v.push_back(project(prefix, "v", x));
      seen.attention.push_back(x);
    }
    for (size_t i = 0; i < hidden.size(); ++i) {
      seen.mixed.push_back(mixed(q[i], k, seen.attention, i));
      seen.heads.push_back(attend(q[i], k, v, i));
      add(project(prefix, "o", seen.heads.back()), hidden[i]);
      add(mlp(prefix + "mlp.", norm(prefix + "post_attention_layernorm.weight", hidden[i]), seen),
          hidden[i]);
    }
    seen.hidden = hidden;
    if (mlp_rows_ != nullptr) mlp_rows_->push_back(std::move(seen));
  }

  Vector mlp(const std::string& prefix, const Vector& row, NaiveMlpRows& seen) const {
    const Vector x = narrowed(prefix + "input", row);
    Vector inner = times(prefix + "gate_proj.weight", narrowed(prefix + "gate", x));
    const Vector up = times(prefix + "up_proj.weight", narrowed(prefix + "up", x));
    seen.input.push_back(row);
    seen.gate.push_back(inner);
    seen.up.push_back(up);
    for (size_t j = 0; j < inner.size(); ++j)
      inner[j] = inner[j] / (1.0 + std::exp(-inner[j])) * up[j];
    return widened(prefix + "down", times(prefix + "down_proj.weight", inner));
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
    Vector y = times(prefix + "self_attn." + letter + "_proj.weight", x);
    const auto bias = tensors_.find(prefix + "self_attn." + letter + "_proj.bias");
    if (bias == tensors_.end()) return y;
    for (size_t j = 0; j < y.size(); ++j) y[j] += static_cast<double>(bias->second.values[j]);
    return y;
  }

  Vector head_norm(const std::string& name, const Vector& x) const {
    if (!tensors_.contains(name)) return x;
    Vector result;
    for (auto head = x.begin(); head != x.end(); head += config_.head_dim) {
      const Vector normed = norm(name, Vector(head, head + config_.head_dim));
      result.insert(result.end(), normed.begin(), normed.end());
    }
    return result;
  }

  // Returns x·cos + rotate_half(x)·sin, as Hugging Face's apply_rotary_pos_emb computes it.
  Vector rotated(const Vector& x, size_t position) const {
    const auto dim = static_cast<size_t>(config_.head_dim);
    const auto* const longrope = std::get_if<io::LongRopeScaling>(&config_.ropes[0].scaling);
    const double scale = longrope != nullptr ? longrope->attention_factor.value() : 1.0;
    Vector y(x.size());
    for (size_t c = 0; c < x.size(); ++c) {
      const size_t j = c % dim;
      const double stretched = longrope != nullptr ? longrope->short_factor[j % (dim / 2)] : 1.0;
      const double exponent = static_cast<double>(2 * (j % (dim / 2))) / static_cast<double>(dim);
      const double angle =
          static_cast<double>(position) / (stretched * std::pow(config_.ropes[0].theta, exponent));
      const double turned = j < dim / 2 ? -x[c + dim / 2] : x[c - dim / 2];
      y[c] = scale * (x[c] * std::cos(angle) + turned * std::sin(angle));
    }
    return y;
  }

  Vector attend(const Vector& q, const Rows& k, const Rows& v, size_t position) const {
    const auto dim = static_cast<size_t>(config_.head_dim);
    const auto group =
        static_cast<size_t>(config_.num_attention_heads / config_.num_key_value_heads);
    const auto window = static_cast<size_t>(config_.attention_of(0).window);
    Vector y(q.size());
    for (size_t head = 0; head < q.size() / dim; ++head) {
      const size_t at = head * dim, kv_at = head / group * dim;
      double total = 0.0;
      for (size_t j = 0; j <= position; ++j) {
        if (window > 0 && position - j >= window) continue;
        double score = 0.0;
        for (size_t d = 0; d < dim; ++d) score += q[at + d] * k[j][kv_at + d];
        const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
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
    for (size_t j = 0; j < x.size(); ++j) y[j] *= static_cast<double>(weight.values[j]) / root;
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
