#include "finetune/trainable_state.h"

#include <algorithm>
#include <cmath>

#include <ATen/core/grad_mode.h>

#include "finetune/torch_divergence.h"
#include "finetune/torch_factors.h"
#include "finetune/torch_product.h"

namespace neuronmm::finetune {
namespace {

// The number of logits that are in memory at a time. It allows enough rows for a fast product.
constexpr int64_t kLogitElements = 1 << 25;

// Fills a tensor with numbers that are uniform in ±bound. They do not depend on the C++ library's
// distributions, so that they are the same on every machine. 24 random bits make a float in [0, 1)
// exactly.
void fill_uniform(at::Tensor& tensor, double bound, std::mt19937_64& random) {
  at::Tensor values = at::empty(tensor.sizes(), at::TensorOptions(at::kFloat));
  float* const data = values.data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double unit = static_cast<double>(random() >> 40) * 0x1p-24;  // [0, 1)
    data[i] = static_cast<float>((2 * unit - 1) * bound);
  }
  tensor.copy_(values);
}

// Estimates what one layer keeps of one token for the backward pass, in elements: inputs and
// outputs of its products, norms and gates, and twice half a matrix of attention weights.
int64_t layer_elements_per_token(const io::ModelConfig& config, int64_t length) {
  const int64_t attention = config.num_attention_heads * (4 * config.head_dim + length);
  return 12 * config.hidden_size + attention + 6 * config.intermediate_size;
}

}  // namespace

PaddedBatch::PaddedBatch(Batch batch, const at::Device& device) {
  int64_t longest = 0;
  for (const Example* const example : batch) longest = std::max(longest, example->length());
  std::vector<int64_t> padded, row_list, target_list;
  for (const Example* const example : batch) {
    const auto first = static_cast<int64_t>(padded.size());
    padded.insert(padded.end(), example->tokens.begin(), example->tokens.end());
    padded.resize(static_cast<size_t>(first + longest));
    // Row t - 1 predicts token t.
    for (int64_t t = example->scored_from; t < example->length(); ++t) {
      row_list.push_back(first + t - 1);
      target_list.push_back(example->tokens[static_cast<size_t>(t)]);
    }
  }
  ids = at::tensor(at::ArrayRef<int64_t>(padded)).view({-1, longest}).to(device);
  rows = at::tensor(at::ArrayRef<int64_t>(row_list)).to(device);
  targets = at::tensor(at::ArrayRef<int64_t>(target_list)).to(device);
}

// Rounding has no gradient. The gradient of the rounded value is used as the gradient of the value
// (the straight-through estimator).
const at::Tensor& TrainableModel::State::gradient_holder(const Parameter& parameter) const {
  const auto found = rounded.find(parameter.name);
  return found == rounded.end() ? parameter.value : found->second.value;
}

AdamTensors TrainableModel::State::with_gradients() const {
  AdamTensors tensors;
  for (const Parameter& parameter : parameters) {
    const at::Tensor& gradient = gradient_holder(parameter).grad();
    if (!gradient.defined()) continue;
    tensors.values.push_back(parameter.value);
    tensors.m.push_back(parameter.m);
    tensors.v.push_back(parameter.v);
    tensors.gradients.push_back(gradient);
  }
  return tensors;
}

void TrainableModel::State::round_parameters() {
  if (rounded.empty()) return;
  const at::NoGradGuard no_gradients;
  for (const Parameter& parameter : parameters) {
    RoundedFactor& factor = rounded.at(parameter.name);
    factor.value.copy_(rounded_weight(parameter.value, factor.grid));
  }
}

void TrainableModel::State::add_parameter(std::string name, at::Tensor value) {
  const auto rounded_factor = rounded.find(name);
  (rounded_factor == rounded.end() ? value : rounded_factor->second.value).requires_grad_(true);
  parameters.push_back({std::move(name), value, at::zeros_like(value), at::zeros_like(value)});
  const Parameter& parameter = parameters.back();
  by_name[parameter.name] = value.detach();  // shares the memory of `value`
  by_name[parameter.name + ".m"] = parameter.m;
  by_name[parameter.name + ".v"] = parameter.v;
}

void TrainableModel::State::add_adapter(TorchMatrix& matrix, const Recipe& recipe,
                                        std::mt19937_64& random) {
  matrix.a = at::empty({recipe.rank, matrix.weight.size(1)}, options);
  matrix.b = at::zeros({matrix.weight.size(0), recipe.rank}, options);
  matrix.scale = recipe.alpha / static_cast<double>(recipe.rank);
  fill_uniform(matrix.a, 1.0 / std::sqrt(static_cast<double>(matrix.weight.size(1))), random);
  add_parameter(matrix.name + ".lora_a", matrix.a);
  add_parameter(matrix.name + ".lora_b", matrix.b);
}

// Returns how many layers form a segment, so that the activations of a segment fit into the budget.
int64_t TrainableModel::State::layers_per_segment(const at::Tensor& ids) const {
  const io::ModelConfig& config = model.config();
  const int64_t bytes = ids.numel() * layer_elements_per_token(config, ids.size(1)) *
                        static_cast<int64_t>(options.dtype().itemsize());
  return std::clamp<int64_t>(activation_bytes / bytes, 1, config.num_hidden_layers);
}

at::Tensor TrainableModel::State::predicting_rows(const at::Tensor& hidden,
                                                  const PaddedBatch& batch) {
  return hidden.reshape({-1, hidden.size(-1)}).index_select(0, batch.rows);
}

// Returns the teacher's hidden states for the same rows, without a gradient. Undefined without a
// teacher.
at::Tensor TrainableModel::State::teacher_rows(const PaddedBatch& batch) const {
  if (!teacher) return {};
  const at::NoGradGuard no_gradients;
  const int64_t layers = teacher->config().num_hidden_layers;
  return predicting_rows(teacher->run_layers(teacher->embed(batch.ids), 0, layers), batch);
}

double TrainableModel::State::head_loss(const at::Tensor& rows, const PaddedBatch& batch,
                                        double scale, at::Tensor* gradient) const {
  const int64_t count = rows.size(0), vocabulary = model.config().vocab_size;
  const int64_t chunk = std::max<int64_t>(1, kLogitElements / vocabulary);
  const at::Tensor teacher_hidden = teacher_rows(batch);
  const at::Tensor leaf = rows.detach().requires_grad_(gradient != nullptr);
  const at::Tensor normed = model.final_norm(leaf);
  const at::NoGradGuard no_gradients;
  double sum = 0.0;
  std::vector<at::Tensor> chunks;
  for (int64_t first = 0; first < count; first += chunk) {
    const int64_t last = std::min(count, first + chunk);
    at::Tensor logits = matrix_product(normed.slice(0, first, last), model.lm_head().t());
    at::Tensor slope;  // of the cap
    if (const double cap = model.config().logit_cap; cap != 0.0) {
      logits = model.capped(logits);
      slope = 1.0 - (logits / cap) * (logits / cap);
    }
    at::Tensor teacher_logits;
    if (teacher) teacher_logits = teacher->logits(teacher_hidden.slice(0, first, last));
    // loss_of_logits replaces the logits by their gradients.
    sum += loss_of_logits(logits, teacher_logits, batch.targets.slice(0, first, last),
                          gradient != nullptr);
    if (slope.defined() && gradient != nullptr) logits.mul_(slope);
    if (gradient != nullptr) chunks.push_back(matrix_product(logits, model.lm_head()));
  }
  if (gradient != nullptr) {
    normed.backward(at::cat(chunks));
    *gradient = leaf.grad() * scale;
  }
  return sum;
}

// Runs backpropagation in segments of layers. Only the input of each segment is kept, and the
// inside of a segment is computed again on the backward pass (Chen et al. 2016, arXiv 1604.06174).
// With one segment this is ordinary backpropagation.
double TrainableModel::State::backward(const PaddedBatch& batch, double scale) const {
  const int64_t layers = model.config().num_hidden_layers;
  const int64_t length = layers_per_segment(batch.ids);
  const int64_t segments = (layers + length - 1) / length;
  const auto run = [&](const at::Tensor& input, int64_t s) {
    return model.run_layers(input, s * length, std::min(layers, (s + 1) * length));
  };
  std::vector<at::Tensor> inputs = {model.embed(batch.ids)};
  // The forward pass has no graph and keeps the input of each segment.
  for (int64_t s = 0; s + 1 < segments; ++s) {
    const at::NoGradGuard no_gradients;
    inputs.push_back(run(inputs.back(), s));
  }
  double sum = 0.0;
  at::Tensor gradient;
  for (int64_t s = segments - 1; s >= 0; --s) {
    at::Tensor& input = inputs[static_cast<size_t>(s)];
    // The embedding is not trained, so that the first segment needs no gradient of its input.
    if (s > 0) input.requires_grad_(true);
    at::Tensor output = run(input, s);
    if (s == segments - 1) {
      output = predicting_rows(output, batch);
      sum = head_loss(output, batch, scale, &gradient);
    }
    if (!output.requires_grad()) break;  // nothing is trained in these layers or below
    output.backward(gradient);
    gradient = input.grad();
    input.reset();
  }
  return sum;
}

void TrainableModel::State::forget_parameters() {
  parameters.clear();
  by_name.clear();
  for_each_factor(model, [&](TorchMatrix& matrix, Part) { by_name[matrix.name] = matrix.weight; });
}

}  // namespace neuronmm::finetune
