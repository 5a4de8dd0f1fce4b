#include "finetune/trainable_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include <ATen/Parallel.h>

#include "finetune/torch_transformer.h"
#include "io/safetensors_writer.h"
#include "model/transformer.h"

namespace neuronmm::finetune {
namespace {

// AdamW's usual constants, as torch and the reference's recipe have them.
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
constexpr double kLargestNorm = 1.0;         // of the gradient in an update
constexpr int64_t kLogitElements = 1 << 26;  // computed at a time, so that large vocabularies fit

struct Parameter {
  std::string name;
  at::Tensor value, m, v;  // of one shape; m and v are AdamW's moments
};

// Independent of the C++ library's distributions: the same on every machine.
// 24 random bits make a float in [0, 1) exactly.
void fill_uniform(at::Tensor& tensor, double bound, std::mt19937_64& random) {
  at::Tensor values = at::empty(tensor.sizes(), at::TensorOptions(at::kFloat));
  float* const data = values.data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double unit = static_cast<double>(random() >> 40) * 0x1p-24;  // [0, 1)
    data[i] = static_cast<float>((2 * unit - 1) * bound);
  }
  tensor.copy_(values);
}

using VisitFactor = std::function<void(TorchMatrix&, Part)>;

// What a compressed matrix is made of, by what is applied first (u) and second (v). A dense one is
// trained where its MLP is narrower than it was; `part` is then its own.
void for_each_factor(TorchLinear& linear, bool narrower, Part part, const VisitFactor& body) {
  if (linear.low_rank()) {
    body(linear.u, Part::kU);
    body(linear.v, Part::kV);
  } else if (!linear.in.empty()) {
    body(linear.in.map, Part::kU);
    body(linear.w, Part::kV);
  } else if (!linear.out.empty()) {
    body(linear.w, Part::kU);
    body(linear.out.map, Part::kV);
  } else if (narrower) {
    body(linear.w, part);
  }
}

// Of every MLP, in the order of its products. With pivots that gate and up share, these are the
// second factors; with fewer neurons all three are dense, and gate and up the first.
void for_each_factor(TorchTransformer& model, const VisitFactor& body) {
  for (TorchLayer& layer : model.layers()) {
    const bool shared = !layer.mlp_in.empty();
    if (shared) body(layer.mlp_in.map, Part::kU);
    for (TorchLinear* const linear : {&layer.gate, &layer.up}) {
      for_each_factor(*linear, shared || layer.fewer_neurons, shared ? Part::kV : Part::kU, body);
    }
    for_each_factor(layer.down, layer.fewer_neurons, Part::kV, body);
  }
}

// The sequences of a batch side by side, padded at the end, where causal attention does not look.
struct PaddedBatch {
  at::Tensor ids;      // [B, T] int64
  at::Tensor rows;     // [N] of B·T: those that predict a scored token
  at::Tensor targets;  // [N]: that token

  PaddedBatch(Batch batch, const at::Device& device) {
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
};

// What one layer keeps of one token for the way back, about: inputs and outputs of its products,
// norms and gates, and two matrices of attention weights.
int64_t layer_elements_per_token(const io::ModelConfig& config, int64_t length) {
  const int64_t attention = config.num_attention_heads * (4 * config.head_dim + 3 * length);
  return 12 * config.hidden_size + attention + 8 * config.intermediate_size;
}

Result<at::Device> find_device(const std::string& name) {
  if (name == "cpu") return at::Device(at::kCPU);
  if (name != "cuda") return fail("device: expected cpu or cuda, found \"{}\"", name);
  if (!at::hasCUDA()) return fail("device cuda: this libtorch finds no CUDA device; use cpu");
  return at::Device(at::kCUDA);
}

}  // namespace

struct TrainableModel::State {
  TorchTransformer model;
  std::optional<TorchTransformer> teacher;
  at::TensorOptions options;
  int64_t activation_bytes = 0;
  std::vector<Parameter> parameters;          // of the phase
  std::map<std::string, at::Tensor> by_name;  // parameters, moments and factors

  // Its two moments begin at zero with every phase.
  void add_parameter(std::string name, at::Tensor value) {
    value.requires_grad_(true);
    parameters.push_back({std::move(name), value, at::zeros_like(value), at::zeros_like(value)});
    const Parameter& parameter = parameters.back();
    by_name[parameter.name] = value.detach();  // shares its memory
    by_name[parameter.name + ".m"] = parameter.m;
    by_name[parameter.name + ".v"] = parameter.v;
  }

  // LoRA (arXiv 2106.09685): W + B A alpha / rank. B is zero at first, so that the model is
  // unchanged.
  void add_adapter(TorchMatrix& matrix, const Recipe& recipe, std::mt19937_64& random) {
    matrix.a = at::empty({recipe.rank, matrix.weight.size(1)}, options);
    matrix.b = at::zeros({matrix.weight.size(0), recipe.rank}, options);
    matrix.scale = recipe.alpha / static_cast<double>(recipe.rank);
    fill_uniform(matrix.a, 1.0 / std::sqrt(static_cast<double>(matrix.weight.size(1))), random);
    add_parameter(matrix.name + ".lora_a", matrix.a);
    add_parameter(matrix.name + ".lora_b", matrix.b);
  }

  // As many layers per segment as their activations fit into the budget for what is kept.
  int64_t layers_per_segment(const at::Tensor& ids) const {
    const io::ModelConfig& config = model.config();
    const int64_t bytes = ids.numel() * layer_elements_per_token(config, ids.size(1)) *
                          static_cast<int64_t>(options.dtype().itemsize());
    return std::clamp<int64_t>(activation_bytes / bytes, 1, config.num_hidden_layers);
  }

  // [N, H] of the rows that predict.
  static at::Tensor predicting_rows(const at::Tensor& hidden, const PaddedBatch& batch) {
    return hidden.reshape({-1, hidden.size(-1)}).index_select(0, batch.rows);
  }

  // The teacher sees the same tokens and has no gradient.
  at::Tensor teacher_rows(const PaddedBatch& batch) const {
    if (!teacher) return {};
    const at::NoGradGuard no_gradients;
    const int64_t layers = teacher->config().num_hidden_layers;
    return predicting_rows(teacher->run_layers(teacher->embed(batch.ids), 0, layers), batch);
  }

  // Without a teacher the negative log-likelihood of the tokens, with one the Kullback-Leibler
  // divergence from its distribution; summed over rows, in nats.
  at::Tensor loss_of_rows(const at::Tensor& rows, const at::Tensor& targets,
                          const at::Tensor& teacher_hidden) const {
    const at::Tensor log_p = at::log_softmax(model.logits(rows), -1);
    if (!teacher) return at::nll_loss(log_p, targets, {}, at::Reduction::Sum);
    const at::Tensor wanted = at::log_softmax(teacher->logits(teacher_hidden), -1);
    return (at::exp(wanted) * (wanted - log_p)).sum();
  }

  // The loss of hidden states [N, H], some rows at a time. With a `gradient`, that becomes the
  // gradient of scale · loss.
  double head(const at::Tensor& rows, const PaddedBatch& batch, double scale,
              at::Tensor* gradient) const {
    const int64_t count = rows.size(0);
    const int64_t together = std::max<int64_t>(1, kLogitElements / model.config().vocab_size);
    const at::Tensor teacher_hidden = teacher_rows(batch);
    const at::AutoGradMode gradients(gradient != nullptr);
    double sum = 0.0;
    std::vector<at::Tensor> pieces;
    for (int64_t first = 0; first < count; first += together) {
      const int64_t last = std::min(count, first + together);
      const auto piece = [&](const at::Tensor& all) { return all.slice(0, first, last); };
      // A leaf of its own: the graph of a piece of logits ends here and is freed before the next
      // one is made.
      const at::Tensor leaf = piece(rows).detach().requires_grad_(gradient != nullptr);
      const at::Tensor loss =
          loss_of_rows(leaf, piece(batch.targets), teacher ? piece(teacher_hidden) : at::Tensor());
      sum += loss.item<double>();
      if (gradient == nullptr) continue;
      (loss * scale).backward();
      pieces.push_back(leaf.grad());
    }
    if (gradient != nullptr) *gradient = at::cat(pieces);
    return sum;
  }

  // Backpropagation in segments of layers: only the input of each segment is kept, and its inside
  // is computed again on the way back (Chen et al. 2016, arXiv 1604.06174). One segment is the
  // ordinary way.
  double backward(const PaddedBatch& batch, double scale) const {
    const int64_t layers = model.config().num_hidden_layers;
    const int64_t length = layers_per_segment(batch.ids);
    const int64_t segments = (layers + length - 1) / length;
    const auto run = [&](const at::Tensor& input, int64_t s) {
      return model.run_layers(input, s * length, std::min(layers, (s + 1) * length));
    };
    std::vector<at::Tensor> inputs = {model.embed(batch.ids)};
    // Forward without a graph, keeping the input of each segment.
    for (int64_t s = 0; s + 1 < segments; ++s) {
      const at::NoGradGuard no_gradients;
      inputs.push_back(run(inputs.back(), s));
    }
    double sum = 0.0;
    at::Tensor gradient;
    for (int64_t s = segments - 1; s >= 0; --s) {
      at::Tensor& input = inputs[static_cast<size_t>(s)];
      // The embedding is not trained: the first segment needs no gradient of its input.
      if (s > 0) input.requires_grad_(true);
      at::Tensor output = run(input, s);
      if (s == segments - 1) {
        output = predicting_rows(output, batch);
        sum = head(output, batch, scale, &gradient);
      }
      if (!output.requires_grad()) break;  // nothing is trained in these layers
      output.backward(gradient);
      gradient = input.grad();
      input.reset();
    }
    return sum;
  }
};

TrainableModel::TrainableModel() = default;
TrainableModel::TrainableModel(TrainableModel&&) noexcept = default;
TrainableModel& TrainableModel::operator=(TrainableModel&&) noexcept = default;
TrainableModel::~TrainableModel() = default;

Result<TrainableModel> TrainableModel::load(const ModelOptions& options) {
  NMM_ASSIGN(const at::Device device, find_device(options.device));
  const at::TensorOptions weights =
      at::TensorOptions(options.compute == DType::kF64 ? at::kDouble : at::kFloat).device(device);
  NMM_ASSIGN(auto model, TorchTransformer::load(options.model, weights));
  std::optional<TorchTransformer> teacher;
  if (!options.teacher.empty()) {
    NMM_ASSIGN(teacher, TorchTransformer::load(options.teacher, weights));
    if (teacher->config().vocab_size != model.config().vocab_size) {
      return fail("{}: expected a teacher with the model's vocabulary of {} tokens, found {}",
                  options.teacher.string(), model.config().vocab_size,
                  teacher->config().vocab_size);
    }
  }
  // State has no constructor of its own and is made in one piece.
  TrainableModel result;
  result.state_.reset(
      new State{std::move(model), std::move(teacher), weights, options.activation_bytes, {}, {}});
  State& state = *result.state_;
  for_each_factor(state.model,
                  [&](TorchMatrix& matrix, Part) { state.by_name[matrix.name] = matrix.weight; });
  if (state.by_name.empty()) {
    return fail("{}: expected a compressed model, found only dense matrices; run compress first",
                options.model.string());
  }
  return result;
}

const io::ModelConfig& TrainableModel::config() const { return state_->model.config(); }
const io::Checkpoint& TrainableModel::checkpoint() const { return state_->model.checkpoint(); }

Matrix TrainableModel::logits(std::span<const text::TokenId> tokens) const {
  const at::NoGradGuard no_gradients;
  const TorchTransformer& model = state_->model;
  const std::vector<int64_t> ids(tokens.begin(), tokens.end());
  const at::Tensor padded =
      at::tensor(at::ArrayRef<int64_t>(ids)).unsqueeze(0).to(state_->options.device());
  const at::Tensor hidden =
      model.run_layers(model.embed(padded), 0, model.config().num_hidden_layers);
  const at::Tensor logits = model.logits(hidden.squeeze(0)).to(at::kCPU, at::kFloat).contiguous();
  Matrix result(logits.size(0), logits.size(1));
  std::copy_n(logits.data_ptr<float>(), logits.numel(), result.data());
  return result;
}

// Factors themselves (kFactors) or adapters beside one of them or both.
void TrainableModel::begin_phase(Part part, const Recipe& recipe, uint64_t seed) {
  std::mt19937_64 random(seed);
  for_each_factor(state_->model, [&](TorchMatrix& matrix, Part factor) {
    if (part == Part::kFactors) {
      state_->add_parameter(matrix.name, matrix.weight);
    } else if (part == Part::kBoth || part == factor) {
      state_->add_adapter(matrix, recipe, random);
    }
  });
}

// What the adapters have learned becomes part of the factors. Names and moments of the phase go.
void TrainableModel::end_phase() {
  const at::NoGradGuard no_gradients;
  for_each_factor(state_->model, [](TorchMatrix& matrix, Part) {
    if (matrix.a.defined()) matrix.weight += at::matmul(matrix.b, matrix.a) * matrix.scale;
    matrix.a = matrix.b = at::Tensor();
    matrix.weight.requires_grad_(false);
    matrix.weight.mutable_grad() = at::Tensor();
  });
  state_->parameters.clear();
  state_->by_name.clear();
  for_each_factor(state_->model,
                  [&](TorchMatrix& matrix, Part) { state_->by_name[matrix.name] = matrix.weight; });
}

int64_t TrainableModel::trainable_parameters() const {
  int64_t count = 0;
  for (const Parameter& parameter : state_->parameters) count += parameter.value.numel();
  return count;
}

double TrainableModel::loss_sum(Batch batch) const {
  const at::NoGradGuard no_gradients;
  const PaddedBatch padded(batch, state_->options.device());
  const TorchTransformer& model = state_->model;
  const at::Tensor hidden =
      model.run_layers(model.embed(padded.ids), 0, model.config().num_hidden_layers);
  return state_->head(State::predicting_rows(hidden, padded), padded, 1.0, nullptr);
}

double TrainableModel::accumulate(Batch batch, double scale) {
  return state_->backward(PaddedBatch(batch, state_->options.device()), scale);
}

void TrainableModel::clear_gradients() {
  for (Parameter& parameter : state_->parameters) parameter.value.mutable_grad() = at::Tensor();
}

// Of all parameters as one vector, in fp64.
double TrainableModel::gradient_norm() const {
  double squares = 0.0;
  for (const Parameter& parameter : state_->parameters) {
    if (!parameter.value.grad().defined()) continue;
    const double norm = parameter.value.grad().norm().item<double>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

// AdamW with both moments corrected for their begin at zero, and no weight decay.
void TrainableModel::update(double learning_rate, int64_t step) {
  const at::NoGradGuard no_gradients;
  const double clip = std::min(1.0, kLargestNorm / (gradient_norm() + 1e-6));  // as torch's does
  const double correction1 = 1.0 - std::pow(kBeta1, static_cast<double>(step));
  const double correction2 = 1.0 - std::pow(kBeta2, static_cast<double>(step));
  for (Parameter& parameter : state_->parameters) {
    if (!parameter.value.grad().defined()) continue;
    const at::Tensor gradient = parameter.value.grad() * clip;
    parameter.m.mul_(kBeta1).add_(gradient, 1.0 - kBeta1);
    parameter.v.mul_(kBeta2).addcmul_(gradient, gradient, 1.0 - kBeta2);
    const at::Tensor root = (at::sqrt(parameter.v) / std::sqrt(correction2)).add_(kEpsilon);
    parameter.value.addcdiv_(parameter.m, root, -learning_rate / correction1);
  }
}

// In fp32 in the file, whatever the model computes in.
std::vector<io::TensorSpec> TrainableModel::phase_tensors() const {
  std::vector<io::TensorSpec> specs;
  for (const Parameter& parameter : state_->parameters) {
    const Shape shape = parameter.value.sizes().vec();
    for (const char* const ending : {"", ".m", ".v"}) {
      specs.push_back({parameter.name + ending, DType::kF32, shape});
    }
  }
  return specs;
}

std::vector<io::TensorSpec> TrainableModel::factor_tensors() const {
  std::vector<io::TensorSpec> specs;
  for_each_factor(state_->model, [&](TorchMatrix& matrix, Part) {
    specs.push_back({matrix.name, DType::kF32, matrix.weight.sizes().vec()});
  });
  return specs;
}

namespace {

std::vector<float> to_vector(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
  const float* const data = values.data_ptr<float>();
  return {data, data + values.numel()};
}

}  // namespace

std::vector<float> TrainableModel::read(const std::string& name) const {
  return to_vector(state_->by_name.at(name));
}

std::vector<float> TrainableModel::read_gradient(const std::string& name) const {
  const auto parameter = std::ranges::find(state_->parameters, name, &Parameter::name);
  NMM_CHECK(parameter != state_->parameters.end());
  return to_vector(parameter->value.grad());
}

void TrainableModel::write(const std::string& name, const float* values) {
  const at::NoGradGuard no_gradients;
  at::Tensor& tensor = state_->by_name.at(name);
  at::Tensor source = at::empty(tensor.sizes(), at::TensorOptions(at::kFloat));
  std::copy_n(values, source.numel(), source.data_ptr<float>());
  tensor.copy_(source);
}

void set_torch_threads(int threads) { at::set_num_threads(threads); }

}  // namespace neuronmm::finetune
