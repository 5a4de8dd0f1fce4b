// This file implements the block refinement of finetune/trainable_model.h. It keeps the hidden
// states of the compressed model and of its teacher, and moves both from one layer to the next.

#include <ATen/core/grad_mode.h>

#include "finetune/torch_factors.h"
#include "finetune/trainable_state.h"

namespace neuronmm::finetune {
namespace {

// Returns the sum over the T tokens of |y - target|² / |target|². Both arguments are [1, T, H].
at::Tensor relative_error(const at::Tensor& y, const at::Tensor& target) {
  const auto squares = [](const at::Tensor& x) { return (x * x).sum(-1); };
  return (squares(y - target) / squares(target)).sum();
}

}  // namespace

Status TrainableModel::open_blocks(Batch examples) {
  const at::NoGradGuard no_gradients;
  NMM_CHECK(state_->teacher.has_value());
  const io::ModelConfig &student = state_->model.config(), &teacher = state_->teacher->config();
  if (student.hidden_size != teacher.hidden_size ||
      student.num_hidden_layers != teacher.num_hidden_layers) {
    return fail(
        "{}: expected a teacher with {} layers of hidden_size {} to refine layers by, found {} of "
        "{}",
        state_->teacher->checkpoint().folder().string(), student.num_hidden_layers,
        student.hidden_size, teacher.num_hidden_layers, teacher.hidden_size);
  }
  state_->streams.clear();
  for (const Example* const example : examples) {
    const std::vector<const Example*> single = {example};
    const at::Tensor ids = PaddedBatch(single, state_->options.device()).ids;
    state_->streams.push_back({state_->model.embed(ids), state_->teacher->embed(ids)});
  }
  state_->block = -1;
  return {};
}

void TrainableModel::begin_block() {
  const int64_t layer = ++state_->block;
  {
    const at::NoGradGuard no_gradients;
    for (BlockStream& stream : state_->streams) {
      stream.target = state_->teacher->run_layer(stream.target, layer);
    }
  }
  for_each_factor(
      state_->model.layers()[static_cast<size_t>(layer)],
      [&](TorchMatrix& matrix, Part) { state_->add_parameter(matrix.name, matrix.weight); });
}

double TrainableModel::block_error(int64_t first, int64_t count) const {
  const at::NoGradGuard no_gradients;
  double sum = 0.0;
  for (int64_t i = first; i < first + count; ++i) {
    const BlockStream& stream = state_->streams[static_cast<size_t>(i)];
    const at::Tensor y = state_->model.run_layer(stream.input, state_->block);
    sum += relative_error(y, stream.target).item<double>();
  }
  return sum;
}

double TrainableModel::accumulate_block(int64_t first, int64_t count, double scale) {
  state_->gradient_norm.reset();
  double sum = 0.0;
  for (int64_t i = first; i < first + count; ++i) {
    const BlockStream& stream = state_->streams[static_cast<size_t>(i)];
    const at::Tensor y = state_->model.run_layer(stream.input, state_->block);
    const at::Tensor error = relative_error(y, stream.target);
    (error * scale).backward();
    sum += error.item<double>();
  }
  return sum;
}

void TrainableModel::end_block() {
  end_phase();
  const at::NoGradGuard no_gradients;
  for (BlockStream& stream : state_->streams) {
    stream.input = state_->model.run_layer(stream.input, state_->block);
  }
}

void TrainableModel::close_blocks() { state_->streams.clear(); }

}  // namespace neuronmm::finetune
