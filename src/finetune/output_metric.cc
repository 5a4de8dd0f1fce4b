#include "finetune/output_metric.h"

#include <algorithm>
#include <random>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/task_labels.h"
#include "compress/linear_algebra/blas.h"
#include "finetune/torch_transformer.h"
#include "io/safetensors_writer.h"

namespace neuronmm::finetune {
namespace {

// The number of logits that labels are drawn from at a time. Their probabilities take 64 MB in
// fp64.
constexpr int64_t kDrawnElements = 1 << 23;

// Draws one label per row of logits [N, V]. Sums are in fp64, because in fp32 the tail of a large
// vocabulary would be lost.
at::Tensor draw_labels(const at::Tensor& logits, std::mt19937_64& random) {
  std::vector<double> uniform;
  for (int64_t i = 0; i < logits.size(0); ++i) {
    uniform.push_back(static_cast<double>(random() >> 11) * 0x1p-53);  // [0, 1)
  }
  const at::Tensor sums = at::cumsum(at::softmax(logits, -1, at::kDouble), -1);
  const at::Tensor total = sums.slice(1, sums.size(1) - 1);
  const at::Tensor drawn = at::tensor(at::ArrayRef<double>(uniform)).unsqueeze(1) * total;
  const at::Tensor found = at::searchsorted(sums, drawn, /*out_int32=*/false, /*right=*/true);
  return found.squeeze(1).clamp_max(logits.size(1) - 1);  // the product may round up to the total
}

// Returns zeros that are added to the outputs of one layer. Their gradients are the gradients of
// those outputs.
MlpOffsets zero_offsets(const TorchTransformer& model, int64_t layer, const at::Tensor& input) {
  const auto zeros = [&](int64_t features) {
    return at::zeros({1, input.size(1), features}, input.options()).requires_grad_(true);
  };
  const int64_t neurons = model.layers()[static_cast<size_t>(layer)].gate.out_features();
  return {zeros(neurons), zeros(neurons), zeros(input.size(2))};
}

// Sums up the moments of all layers over all sequences.
class MetricSums {
 public:
  // The layers of `model` are read one by one.
  MetricSums(TorchTransformer& model, uint64_t seed)
      : model_(model), random_(seed), sums_(model.layers().size()) {}

  // Adds one sequence by backpropagation that keeps only the input of each layer (arXiv
  // 1604.06174).
  Status add(const std::vector<text::TokenId>& tokens, Progress& progress) {
    const std::vector<int64_t> ids(tokens.begin(), tokens.end());
    std::vector<at::Tensor> inputs = {
        model_.embed(at::tensor(at::ArrayRef<int64_t>(ids)).unsqueeze(0))};
    const int64_t layers = model_.config().num_hidden_layers;
    for (int64_t i = 0; i < layers; ++i) {
      if (interrupted()) return interrupted_error("nothing is kept");
      NMM_TRY(model_.read_layer(i));
      inputs.push_back(model_.run_layer(inputs.back(), i));
      model_.drop_layer(i);
    }
    at::Tensor gradient = head(inputs.back().squeeze(0)).unsqueeze(0);
    for (int64_t i = layers - 1; i >= 0; --i) {
      if (interrupted()) return interrupted_error("nothing is kept");
      inputs.pop_back();
      NMM_TRY(model_.read_layer(i));
      gradient = backward(i, inputs.back(), gradient);
      model_.drop_layer(i);
      progress.update(++layers_done_);
    }
    summary_.tokens += std::ssize(tokens);
    return {};
  }

  MetricSummary summary() const {
    MetricSummary summary = summary_;
    summary.mean_loss /= static_cast<double>(summary.tokens);
    return summary;
  }

  Status write(const std::filesystem::path& path) const {
    const io::ModelConfig& config = model_.config();
    std::vector<io::TensorSpec> specs;
    for (size_t i = 0; i < sums_.size(); ++i) {
      const std::string prefix = fmt::format("model.layers.{}.mlp.metric_", i);
      specs.push_back({prefix + "out", DType::kF64, sums_[i].down.sizes().vec()});
      specs.push_back({prefix + "gate", DType::kF64, sums_[i].gate.sizes().vec()});
      specs.push_back({prefix + "up", DType::kF64, sums_[i].up.sizes().vec()});
    }
    NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                                path, specs,
                                {{"hidden_size", std::to_string(config.hidden_size)},
                                 {"intermediate_size", std::to_string(config.intermediate_size)},
                                 {"num_hidden_layers", std::to_string(config.num_hidden_layers)},
                                 {"tokens", std::to_string(summary_.tokens)}}));
    for (const MlpOffsets& layer : sums_) {
      for (const at::Tensor* const sum : {&layer.down, &layer.gate, &layer.up}) {
        const at::Tensor mean = *sum / static_cast<double>(summary_.tokens);
        NMM_TRY(writer.append(
            std::as_bytes(std::span(mean.data_ptr<double>(), static_cast<size_t>(mean.numel())))));
      }
    }
    return writer.finish();
  }

 private:
  // Draws the labels of hidden states [N, H] and returns the gradient of the summed loss, [N, H].
  at::Tensor head(const at::Tensor& hidden) {
    const int64_t count = hidden.size(0);
    const int64_t chunk = std::max<int64_t>(1, kDrawnElements / model_.config().vocab_size);
    std::vector<at::Tensor> chunks;
    summary_.labels.emplace_back();
    for (int64_t first = 0; first < count; first += chunk) {
      const at::AutoGradMode gradients(true);
      const at::Tensor rows =
          hidden.slice(0, first, std::min(count, first + chunk)).detach().requires_grad_(true);
      const at::Tensor logits = model_.logits(rows);
      const at::Tensor labels = draw_labels(logits.detach(), random_);
      const at::Tensor loss =
          at::nll_loss(at::log_softmax(logits, -1), labels, {}, at::Reduction::Sum);
      loss.backward();
      summary_.mean_loss += loss.item<double>();
      chunks.push_back(rows.grad());
      const int64_t* const drawn = labels.data_ptr<int64_t>();
      for (int64_t i = 0; i < labels.numel(); ++i) {
        summary_.labels.back().push_back(static_cast<text::TokenId>(drawn[i]));
      }
    }
    return at::cat(chunks);
  }

  // Adds the moments of one layer and returns the gradient with respect to the layer's input.
  at::Tensor backward(int64_t index, const at::Tensor& input, const at::Tensor& gradient) {
    const at::Tensor leaf = input.detach().requires_grad_(true);
    const MlpOffsets offsets = zero_offsets(model_, index, input);
    {
      const at::AutoGradMode gradients(true);
      model_.run_layer(leaf, index, offsets).backward(gradient);
    }
    MlpOffsets& sums = sums_[static_cast<size_t>(index)];
    const auto rows = [](const at::Tensor& offset) {
      return offset.grad().squeeze(0).to(at::kDouble);
    };
    const at::Tensor gate = rows(offsets.gate), up = rows(offsets.up), down = rows(offsets.down);
    if (!sums.gate.defined()) {
      const int64_t hidden = down.size(1);
      sums = {at::zeros_like(gate[0]), at::zeros_like(up[0]),
              at::zeros({hidden, hidden}, at::kDouble)};
    }
    sums.gate += (gate * gate).sum(0);
    sums.up += (up * up).sum(0);
    sums.down.addmm_(down.t(), down);
    return leaf.grad();
  }

  TorchTransformer& model_;
  std::mt19937_64 random_;
  // Per layer, in fp64: the sums of the squares (or outer products) of the offsets' gradients.
  std::vector<MlpOffsets> sums_;
  // mean_loss holds the sum of the losses until summary() divides it.
  MetricSummary summary_;
  int64_t layers_done_ = 0;
};

Status check_sequences(const MetricRequest& request, const io::ModelConfig& config) {
  if (request.sequences.empty()) return fail("expected at least one sequence, found none");
  for (size_t i = 0; i < request.sequences.size(); ++i) {
    const std::vector<text::TokenId>& tokens = request.sequences[i];
    if (tokens.empty() || std::ssize(tokens) > config.max_position_embeddings) {
      return fail("sequence {}: expected 1 to {} tokens (max_position_embeddings), found {}", i,
                  config.max_position_embeddings, tokens.size());
    }
    for (const text::TokenId token : tokens) {
      if (token >= 0 && token < config.vocab_size) continue;
      return fail("sequence {}: expected tokens below the vocab_size {}, found {}", i,
                  config.vocab_size, token);
    }
  }
  return {};
}

Result<MetricSummary> measure(const MetricRequest& request, Progress& progress) {
  const at::NoGradGuard no_gradients;
  at::set_num_threads(num_threads());
  // Each thread may multiply on its own, or OpenBLAS divides a product among its own threads.
  compress::reserve_blas(2 * num_threads());
  const at::ScalarType values = request.compute == DType::kF64 ? at::kDouble : at::kFloat;
  NMM_ASSIGN(TorchTransformer model,
             TorchTransformer::load(request.model, values, values, {}, false,
                                    TorchTransformer::Layers::kOneByOne));
  NMM_TRY(check_sequences(request, model.config()));
  MetricSums sums(model, request.seed);
  progress.start(task::kMetric, std::ssize(request.sequences) * model.config().num_hidden_layers);
  for (const auto& tokens : request.sequences) NMM_TRY(sums.add(tokens, progress));
  progress.finish();
  NMM_TRY(sums.write(request.out));
  return sums.summary();
}

}  // namespace

Result<MetricSummary> write_output_metric(const MetricRequest& request, Progress& progress) {
  try {
    return measure(request, progress);
  } catch (const std::exception& error) {  // libtorch throws when memory is short
    const std::string_view what = error.what();
    return fail("libtorch: {}; if memory is short, shorter sequences may fit",
                what.substr(0, what.find('\n')));
  }
}

}  // namespace neuronmm::finetune
