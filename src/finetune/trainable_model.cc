#include "finetune/trainable_model.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "compress/linear_algebra/blas.h"
#include "finetune/torch_adamw.h"
#include "finetune/torch_factors.h"
#include "finetune/trainable_state.h"
#include "io/safetensors_writer.h"
#include "model/transformer.h"

namespace neuronmm::finetune {
namespace {

// The usual constants of AdamW, as in torch and in the recipe of the reference.
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
constexpr double kLargestNorm = 1.0;  // the largest norm of the gradient in an update

Result<at::Device> find_device(const std::string& name) {
  if (name == "cpu") return at::Device(at::kCPU);
  if (name != "cuda") return fail("device: expected cpu or cuda, found \"{}\"", name);
  if (!at::hasCUDA()) return fail("device cuda: this libtorch finds no CUDA device; use cpu");
  return at::Device(at::kCUDA);
}

}  // namespace

TrainableModel::TrainableModel() = default;
TrainableModel::TrainableModel(TrainableModel&&) noexcept = default;
TrainableModel& TrainableModel::operator=(TrainableModel&&) noexcept = default;
TrainableModel::~TrainableModel() = default;

Result<TrainableModel> TrainableModel::load(const ModelOptions& options) {
  NMM_ASSIGN(const at::Device device, find_device(options.device));
  const at::TensorOptions weights =
      at::TensorOptions(options.compute == DType::kF64 ? at::kDouble : at::kFloat).device(device);
  const auto product_type =
      options.compute == DType::kBF16 ? at::kBFloat16 : c10::typeMetaToScalarType(weights.dtype());
  NMM_ASSIGN(auto model, TorchTransformer::load(options.model, weights, product_type,
                                                options.rounding, options.all_matrices));
  std::optional<TorchTransformer> teacher;
  if (!options.teacher.empty()) {
    NMM_ASSIGN(teacher, TorchTransformer::load(options.teacher, weights, product_type));
    if (teacher->config().vocab_size != model.config().vocab_size) {
      return fail("{}: expected a teacher with the model's vocabulary of {} tokens, found {}",
                  options.teacher.string(), model.config().vocab_size,
                  teacher->config().vocab_size);
    }
    teacher->freeze();
  }
  // State has no constructor of its own, so that it is built in one expression.
  TrainableModel result;
  result.state_.reset(
      new State{std::move(model), std::move(teacher), weights, options.activation_bytes});
  for_each_factor(result.state_->model, [&](TorchMatrix& matrix, Part) {
    if (!matrix.rounded.defined()) return;
    result.state_->rounded[matrix.name] = {matrix.rounded, std::move(matrix.grid)};
  });
  result.state_->forget_parameters();
  if (result.state_->by_name.empty()) {
    return fail(
        "{}: expected a compressed model, found only dense matrices; run compress first, or train "
        "all of them",
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

// Trains the matrices themselves (kFactors, kAll), or adapters on one of the factors or on both.
void TrainableModel::begin_phase(Part part, const Recipe& recipe, uint64_t seed) {
  std::mt19937_64 random(seed);
  for_each_factor(state_->model, [&](TorchMatrix& matrix, Part factor) {
    const bool is_factor = factor != Part::kAll;
    if (part == Part::kAll || (part == Part::kFactors && is_factor)) {
      state_->add_parameter(matrix.name, matrix.weight);
    } else if (part == factor || (part == Part::kBoth && is_factor)) {
      state_->add_adapter(matrix, recipe, random);
    }
  });
}

// Merges the adapters into the factors, and forgets the names and moments of the phase.
void TrainableModel::end_phase() {
  const at::NoGradGuard no_gradients;
  for_each_factor(state_->model, [](TorchMatrix& matrix, Part) {
    if (matrix.a.defined()) matrix.weight += at::matmul(matrix.b, matrix.a) * matrix.scale;
    matrix.a = matrix.b = at::Tensor();
    matrix.weight.requires_grad_(false);
    matrix.weight.mutable_grad() = at::Tensor();
    if (!matrix.rounded.defined()) return;
    matrix.rounded.requires_grad_(false);
    matrix.rounded.mutable_grad() = at::Tensor();
  });
  state_->forget_parameters();
}

void TrainableModel::keep_best() {
  for (Parameter& parameter : state_->parameters) {
    parameter.best = parameter.value.detach().clone();
    state_->by_name[parameter.name + ".best"] = parameter.best;
  }
}

void TrainableModel::restore_best() {
  const at::NoGradGuard no_gradients;
  for (Parameter& parameter : state_->parameters) parameter.value.copy_(parameter.best);
  state_->round_parameters();
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
  return state_->head_loss(State::predicting_rows(hidden, padded), padded, 1.0, nullptr);
}

double TrainableModel::accumulate(Batch batch, double scale) {
  state_->gradient_norm.reset();
  return state_->backward(PaddedBatch(batch, state_->options.device()), scale);
}

void TrainableModel::clear_gradients() {
  state_->gradient_norm.reset();
  for (Parameter& parameter : state_->parameters) {
    at::Tensor(state_->gradient_holder(parameter)).mutable_grad() = at::Tensor();
  }
}

// Computes the norm of all gradients as one vector, in fp64.
double TrainableModel::gradient_norm() const {
  if (state_->gradient_norm) return *state_->gradient_norm;
  state_->gradient_norm = std::sqrt(sum_of_squares(state_->with_gradients().gradients));
  return *state_->gradient_norm;
}

// Corrects both moments for their begin at zero.
void TrainableModel::update(double learning_rate, int64_t step) {
  const at::NoGradGuard no_gradients;
  const auto count = static_cast<double>(step);
  AdamStep adam = {kBeta1, kBeta2, kEpsilon};
  adam.gradient_scale =
      std::min(1.0, kLargestNorm / (gradient_norm() + 1e-6));  // torch adds 1e-6, too
  adam.rate = learning_rate / (1.0 - std::pow(kBeta1, count));
  adam.root_correction = std::sqrt(1.0 - std::pow(kBeta2, count));
  adam_update(state_->with_gradients(), adam);
  state_->round_parameters();
}

// The tensors are fp32 in the file, whatever dtype the model computes in.
std::vector<io::TensorSpec> TrainableModel::phase_tensors() const {
  std::vector<io::TensorSpec> specs;
  for (const Parameter& parameter : state_->parameters) {
    const Shape shape = parameter.value.sizes().vec();
    for (const char* const ending : {"", ".m", ".v"}) {
      specs.push_back({parameter.name + ending, DType::kF32, shape});
    }
    if (parameter.best.defined()) specs.push_back({parameter.name + ".best", DType::kF32, shape});
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

ops::QuantizedWeight TrainableModel::stored(const std::string& factor) const {
  return stored_weight(state_->by_name.at(factor), state_->rounded.at(factor).grid);
}

std::vector<float> TrainableModel::read_gradient(const std::string& name) const {
  const auto parameter = std::ranges::find(state_->parameters, name, &Parameter::name);
  NMM_CHECK(parameter != state_->parameters.end());
  return to_vector(state_->gradient_holder(*parameter).grad());
}

void TrainableModel::write(const std::string& name, const float* values) {
  const at::NoGradGuard no_gradients;
  at::Tensor& tensor = state_->by_name.at(name);
  at::Tensor source = at::empty(tensor.sizes(), at::TensorOptions(at::kFloat));
  std::copy_n(values, source.numel(), source.data_ptr<float>());
  tensor.copy_(source);
  const auto rounded = state_->rounded.find(name);
  if (rounded == state_->rounded.end()) return;
  rounded->second.value.copy_(rounded_weight(tensor, rounded->second.grid));
}

void set_torch_threads(int threads) {
  at::set_num_threads(threads);
  // Each thread may multiply on its own, or OpenBLAS divides a product among its own threads.
  compress::reserve_blas(2 * threads);
}

}  // namespace neuronmm::finetune
