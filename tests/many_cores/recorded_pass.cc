#include "many_cores/recorded_pass.h"

#include <algorithm>
#include <optional>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "model/rope.h"
#include "model/sampler.h"
#include "model/transformer.h"
#include "ops/log_sum.h"
#include "ops/low_bit.h"

namespace neuronmm::many_cores {
namespace {

// Documented: config.json of Qwen2.5-Coder-0.5B-Instruct, Llama-3.2-1B and Llama-3.1-8B.
const ModelShape kShapes[] = {{"Qwen2.5-Coder-0.5B", 896, 4864, 14, 2, 64, 151936},
                              {"Llama-3.2-1B", 2048, 8192, 32, 8, 64, 128256},
                              {"Llama-3.1-8B", 4096, 14336, 32, 8, 128, 128256}};

constexpr int64_t kChunk = 512, kContext = 4096;
const Pass kPasses[] = {{"read", 1, kChunk, 0},
                        {"read", 16, kChunk / 16, 0},
                        {"write", 1, 1, kContext},
                        {"write", 16, 1, kContext}};

io::ModelConfig config_of(const ModelShape& shape) {
  io::ModelConfig config;
  config.hidden_size = shape.hidden_size;
  config.intermediate_size = shape.intermediate_size;
  config.num_hidden_layers = 1;
  config.layers.resize(static_cast<size_t>(config.num_hidden_layers));
  config.num_attention_heads = shape.heads;
  config.num_key_value_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.vocab_size = shape.vocab_size;
  config.max_position_embeddings = 2 * kContext;
  return config;
}

// Chooses a token as `generate` does for one sequence: the most likely one, and a random one. With
// several sequences, each is one task.
void choose_token(const Matrix& logits) {
  const std::span<const float> row(logits.data(), static_cast<size_t>(logits.columns()));
  ops::all_finite(row);
  model::Sampler({.temperature = 0.0}).sample(row, {}, {}, {});
  model::Sampler({.temperature = 1.0}).sample(row, {}, {}, {});
}

}  // namespace

// Zeros in the form of a checkpoint's tensors, which all share one piece of memory.
class RecordedModel::Zeros {
 public:
  Zeros(int64_t values, WeightBits bits)
      : bits_(bits),
        memory_(static_cast<size_t>(bits == WeightBits::kFour ? values : 2 * values)) {}

  TensorView floats(const Shape& shape) const { return {DType::kBF16, shape, memory_.data()}; }
  ops::WeightView weight(int64_t rows, int64_t columns) const {
    if (bits_ == WeightBits::kSixteen) return floats({rows, columns});
    const LowBitFormat format = {4, 32};
    const int64_t groups = (columns + ops::kQuantGroup - 1) / ops::kQuantGroup;
    const TensorView multipliers = {
        DType::kU8, {rows, ops::groups_of_row(format, columns)}, memory_.data()};
    return {format, {rows, columns}, memory_.data(), floats({rows, groups}), multipliers};
  }

 private:
  WeightBits bits_;
  std::vector<std::byte> memory_;
};

model::LayerWeights RecordedModel::layer_of(const ModelShape& s, const Zeros& zeros) {
  const int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  model::LayerWeights weights;
  weights.input_norm = weights.post_attention_norm = zeros.floats({s.hidden_size});
  weights.q.w_t = zeros.weight(q, s.hidden_size);
  weights.k.w_t = weights.v.w_t = zeros.weight(kv, s.hidden_size);
  weights.o.w_t = zeros.weight(s.hidden_size, q);
  weights.mlp.gate.w_t = weights.mlp.up.w_t = zeros.weight(s.intermediate_size, s.hidden_size);
  weights.mlp.down.w_t = zeros.weight(s.hidden_size, s.intermediate_size);
  return weights;
}

std::span<const ModelShape> model_shapes() { return kShapes; }
std::span<const Pass> passes() { return kPasses; }

struct RecordedModel::Parts {
  Parts(const ModelShape& shape, WeightBits bits)
      : zeros(shape.vocab_size * shape.hidden_size, bits),
        config(config_of(shape)),
        backend(cpu::make_backend(counting_kernels())),
        layer(config, 0, layer_of(shape, zeros), *backend),
        embedding(zeros.weight(shape.vocab_size, shape.hidden_size)),
        norm(static_cast<size_t>(shape.hidden_size)),
        head(backend->make_lm_head({.w_t = embedding, .round_input_twice = true})) {}

  Zeros zeros;
  io::ModelConfig config;
  std::unique_ptr<ops::Backend> backend;
  model::DecoderLayer layer;
  ops::WeightView embedding;
  std::vector<float> norm;
  std::unique_ptr<ops::Linear> head;
};

RecordedModel::RecordedModel(const ModelShape& shape, WeightBits bits)
    : parts_(std::make_unique<Parts>(shape, bits)) {}
RecordedModel::~RecordedModel() = default;

std::vector<Step> RecordedModel::record(const Pass& pass, int threads) const {
  const io::ModelConfig& config = parts_->config;
  std::vector<std::unique_ptr<ops::KvCache>> caches;
  std::vector<ops::SequenceRows> batch;
  for (int64_t i = 0; i < pass.sequences; ++i) {
    caches.push_back(parts_->backend->make_kv_cache({1, config.num_key_value_heads, config.head_dim,
                                                     pass.context + pass.tokens, DType::kBF16}));
    caches.back()->grow(pass.context + pass.tokens);
    caches.back()->set_length(pass.context);
    batch.push_back({caches.back().get(), pass.tokens});
  }
  const std::vector<text::TokenId> tokens(static_cast<size_t>(pass.sequences * pass.tokens));
  Matrix hidden(std::ssize(tokens), config.hidden_size), logits(pass.sequences, config.vocab_size);
  const model::RotaryTables rotary(config);
  // The backend keeps the angles of the last positions, so a pass with the same ones would not
  // compute them.
  const int64_t elsewhere[] = {pass.context + pass.tokens};
  Matrix forgotten(1, config.head_dim);
  parts_->backend->rope(forgotten.view(), config.head_dim, elsewhere, rotary.at(0));
  const int before = num_threads();
  set_num_threads(threads);
  StepRecorder recorder;
  {
    const RecordLoops recording(recorder);
    model::embed(parts_->embedding, tokens, config.embedding_scale, hidden.view());
    parts_->layer.forward(hidden.view(), rotary, batch);
    const MutableMatrixView last = hidden.view().row_range(0, pass.sequences);
    parts_->backend->rms_norm(last, parts_->norm, 1e-6f, last);
    parts_->head->apply(last, logits.view());
    if (pass.sequences == 1) choose_token(logits);
  }
  set_num_threads(before);
  return recorder.steps();
}

}  // namespace neuronmm::many_cores
