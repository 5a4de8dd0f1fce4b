#include "training/layer.h"

#include "model/transformer.h"
#include "training/attention.h"
#include "training/elementwise.h"

namespace neuronmm::training {

template <typename T>
Layer<T>::Layer(const io::ModelConfig& config, const model::LayerWeights& weights,
                const std::string& prefix, Angles<T>& angles)
    : config_(config), angles_(angles), index_(weights.layer) {
  const auto norm = [&](const TensorView& gain, const char* name, Parameter<T>& parameter) {
    load(ops::WeightView(gain), prefix + name, parameter);
  };
  norm(weights.input_norm, "input_layernorm.weight", input_norm_);
  norm(weights.post_attention_norm, "post_attention_layernorm.weight", post_attention_norm_);
  norm(weights.attention_output_norm, "self_attn.output_norm.weight", attention_output_norm_);
  norm(weights.mlp_output_norm, "mlp.output_norm.weight", mlp_output_norm_);
  norm(weights.q_norm, "self_attn.q_norm.weight", q_norm_);
  norm(weights.k_norm, "self_attn.k_norm.weight", k_norm_);
  load(weights.q, prefix + "self_attn.q", q_);
  load(weights.k, prefix + "self_attn.k", k_);
  load(weights.v, prefix + "self_attn.v", v_);
  load(weights.o, prefix + "self_attn.o", o_);
  load(ops::WeightView(weights.sinks), prefix + "self_attn.sinks", sinks_);
  if (weights.mixture) {
    load(*weights.mixture, prefix + "mlp.", mixture_);
  } else {
    load(weights.mlp, prefix + "mlp.", mlp_);
  }
}

template <typename T>
Tensor<T> Layer<T>::run(Tape<T>& tape, const Tensor<T>& x, const Sequences& sequences,
                        const MlpObserver<T>& observer) {
  NMM_CHECK(x->rows() == sequences.tokens());
  const double scale = config_.residual_scale;
  const Tensor<T> attended = attend(tape, rms_norm(tape, x, input_norm_, norms()), sequences);
  const Tensor<T> middle =
      add_scaled(tape, x, scale, rms_norm(tape, attended, attention_output_norm_, norms()));
  const Tensor<T> input = rms_norm(tape, middle, post_attention_norm_, norms());
  const Tensor<T> output =
      mixture_.empty() ? mlp_.run(tape, input, observer) : mixture_.run(tape, input, observer);
  return add_scaled(tape, middle, scale, rms_norm(tape, output, mlp_output_norm_, norms()));
}

template <typename T>
Tensor<T> Layer<T>::attend(Tape<T>& tape, const Tensor<T>& x, const Sequences& sequences) {
  const Tensor<T> q = project(tape, x, sequences, q_, q_norm_);
  const Tensor<T> k = project(tape, x, sequences, k_, k_norm_);
  const Tensor<T> v = limited(tape, apply(tape, x, v_), config_.qkv_clamp);
  x->drop_packings();
  const Tensor<T> attended = attention(tape, model::attention_shape(config_, index_),
                                       config_.query_temperature, sequences, q, k, v, sinks_);
  const Tensor<T> y = apply(tape, attended, o_);
  attended->drop_packings();
  return y;
}

// A norm of the whole width, and one of every head, differ in the number of gains alone.
template <typename T>
Tensor<T> Layer<T>::project(Tape<T>& tape, const Tensor<T>& x, const Sequences& sequences,
                            Linear<T>& linear, Parameter<T>& gain) {
  const int64_t rope = config_.attention_of(index_).rope, head_dim = config_.head_dim;
  const bool norm_last = config_.qk_norm == io::QkNorm::kPerHead && config_.qk_norm_after_rope;
  Tensor<T> y = apply(tape, x, linear);
  if (!norm_last) y = rms_norm(tape, y, gain, norms());
  y = limited(tape, y, config_.qkv_clamp);
  rotate(tape, y, head_dim, rope, sequences, angles_);
  return norm_last ? rms_norm(tape, y, gain, norms()) : y;
}

template class Layer<float>;
template class Layer<double>;

}  // namespace neuronmm::training
