#include "compress/statistics/expert_statistics.h"

#include <algorithm>

#include "base/parallel.h"
#include "compress/linear_algebra/gram.h"
#include "compress/statistics/means_file.h"
#include "compress/statistics/open_mlp.h"
#include "io/safetensors.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// The sums of one expert, in their order. Those of the sample are of tokens that the router need
// not have sent to the expert. kCounts has the numbers below.
enum ExpertSum {
  kOwnIn,
  kOwnNeurons,
  kOwnGates,
  kOwnUps,
  kSampleNeurons,
  kSampleGates,
  kSampleUps,
  kCounts
};
constexpr size_t kExpertSums = kCounts + 1;
enum Count { kChosen, kWeightSum, kSquareSum, kSampled, kNumCounts };

// The tokens of a sequence that are shown to every expert. Assumed: a sequence of 512 tokens then
// costs at most twice the time if a token chooses a sixteenth of the experts.
constexpr int64_t kSampleOfSequence = 32;

// The most bytes that the Gram matrices of the inputs of all experts of a model may take on disk.
// Assumed: OLMoE-1B-7B, with 17 GB, has its own, and Qwen3-30B-A3B, with 103 GB, does not.
constexpr int64_t kMostInputBytes = int64_t{32} << 30;

bool has_own_inputs(const io::ModelConfig& config, Gathered what) {
  const int64_t triangle = 4 * config.hidden_size * config.hidden_size;
  return what == Gathered::kAllLinears &&
         triangle * config.experts->count * config.num_hidden_layers <= kMostInputBytes;
}

bool has_bases(const io::ModelConfig& config) { return !config.experts->bases.empty(); }

// The means of a layer, in their order. The last two are only in models whose experts share bases.
enum LayerMean { kLayerIn, kLayerResidual, kBasisIn, kBasisOut };
std::vector<Mean> layer_means(const io::ModelConfig& config) {
  const Shape square = {config.hidden_size, config.hidden_size};
  std::vector<Mean> means = {{"in", square, true}, {"residual", {1, 1}}};
  if (!has_bases(config)) return means;
  means.push_back({"basis_in", square, true});
  means.push_back({"basis_out", square, true});
  return means;
}

std::vector<Mean> expert_means(const io::ModelConfig& config, int64_t expert) {
  const int64_t inner = config.experts->width;
  const auto name = [&](const char* mean) { return fmt::format("experts.{}.{}", expert, mean); };
  return {{name("neurons"), {inner, inner}, true},
          {name("gate_slope"), {1, inner}},
          {name("up_slope"), {1, inner}},
          {name("use"), {1, kNumCounts}}};
}

Mean input_mean(const io::ModelConfig& config, int64_t expert) {
  const int64_t hidden = config.hidden_size;
  return {fmt::format("experts.{}.in", expert), {hidden, hidden}, true};
}

Matrix rows_at(ConstMatrixView x, std::span<const int32_t> rows) {
  Matrix out(std::ssize(rows), x.columns);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(x.row(rows[i]), x.columns, out.row(static_cast<int64_t>(i)));
  }
  return out;
}

void scale_rows(Matrix& rows, std::span<const float> factors) {
  for (int64_t i = 0; i < rows.rows(); ++i) {
    const float factor = factors[static_cast<size_t>(i)];
    std::for_each_n(rows.row(i), rows.columns(), [&](float& value) { value *= factor; });
  }
}

void scale_all(double factor, DoubleMatrix& matrix) {
  for (int64_t j = 0; j < matrix.columns(); ++j) matrix.scale_column(j, factor);
}

void add_scaled(double factor, const DoubleMatrix& from, DoubleMatrix& to) {
  for (int64_t i = 0; i < from.size(); ++i) to.data()[i] += factor * from.data()[i];
}

// Replaces the sums of an expert that too few tokens have chosen. With n tokens of its own of the
// `enough` that it should have, its means per token are n parts of its own and enough - n parts of
// the layer's, whose tokens count as its own do on average, or as those of all experts if it has
// none. An expert that no token chose counts as if one had. `in` is the sum of what all experts of
// the layer could read.
void complete_expert(std::span<DoubleMatrix*> sums, const DoubleMatrix& in, double enough,
                     double tokens, double square_of_all) {
  DoubleMatrix& counts = *sums[kCounts];
  const double own = counts(0, kChosen), missing = enough - own;
  const double square = own > 0.0 ? counts(0, kSquareSum) / own : square_of_all;
  const auto fill = [&](DoubleMatrix& sum, const DoubleMatrix& of_layer, double seen) {
    if (seen > 0.0) add_scaled(missing * square / seen, of_layer, sum);
    scale_all(std::max(own, 1.0) / enough, sum);
  };
  if (sums[kOwnIn]->size() == in.size()) fill(*sums[kOwnIn], in, tokens);
  fill(*sums[kOwnNeurons], *sums[kSampleNeurons], counts(0, kSampled));
  fill(*sums[kOwnGates], *sums[kSampleGates], counts(0, kSampled));
  fill(*sums[kOwnUps], *sums[kSampleUps], counts(0, kSampled));
}

}  // namespace

// Assumed to be enough: with fewer tokens than neurons, the Gram matrix of the neurons cannot have
// full rank.
int64_t enough_tokens_of_expert(const io::ModelConfig& config) { return config.experts->width; }

std::vector<Shape> expert_sum_shapes(const io::ModelConfig& config, Gathered what) {
  const int64_t hidden = has_own_inputs(config, what) ? config.hidden_size : 1;
  const int64_t inner = config.experts->width;
  std::vector<Shape> shapes;
  for (int64_t i = 0; i < config.experts->count; ++i) {
    shapes.insert(shapes.end(), {{hidden, hidden},
                                 {inner, inner},
                                 {1, inner},
                                 {1, inner},
                                 {inner, inner},
                                 {1, inner},
                                 {1, inner},
                                 {1, kNumCounts}});
  }
  if (has_bases(config)) shapes.insert(shapes.end(), 2, {config.hidden_size, config.hidden_size});
  return shapes;
}

OpenMixture::OpenMixture(const io::ModelConfig& config, const model::LayerWeights& weights,
                         const ops::Backend& backend)
    : backend_(backend),
      around_(config, weights.post_attention_norm, weights.mlp_output_norm),
      norms_output_(!weights.mlp_output_norm.empty()),
      router_(backend, *weights.mixture),
      bases_(backend, *weights.mixture) {
  for (const ops::MlpWeight& expert : weights.mixture->experts) {
    experts_.push_back(std::make_unique<OpenMlp>(expert, backend));
  }
}

OpenMixture::~OpenMixture() = default;

void OpenMixture::apply(MutableMatrixView hidden, DoubleMatrix& in, DoubleMatrix& residual,
                        std::span<DoubleMatrix> sums) const {
  Matrix normed(hidden.rows, hidden.columns), out(hidden.rows, hidden.columns);
  const ConstMatrixView x = around_.input(backend_, hidden, normed.view());
  add_gram(x, in);
  const auto groups = ops::group_by_expert(router_.choose(x), router_.active(), router_.experts());
  bases_.apply(x, out.view(), [&](ConstMatrixView z, MutableMatrixView sum) {
    add_experts(groups, z, sums, sum);
  });
  const double before = norms_output_ ? mean_squares(out.view()) : 0.0;
  around_.finish(backend_, out.view());
  backend_.add(out.view(), hidden);
  const double after = norms_output_ ? mean_squares(out.view()) : 0.0;
  residual(0, 0) += mean_squares(hidden) * (after > 0.0 ? before / after : 1.0);
}

void OpenMixture::add_experts(const ops::ExpertGroups& groups, ConstMatrixView z,
                              std::span<DoubleMatrix> sums, MutableMatrixView out) const {
  const int64_t sampled = std::min(kSampleOfSequence, z.rows);
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < sampled; ++i) rows.push_back(static_cast<int32_t>(i * z.rows / sampled));
  const Matrix sample = rows_at(z, rows);
  for (int64_t i = 0; i < out.rows; ++i) std::fill_n(out.row(i), out.columns, 0.0f);
  for (size_t e = 0; e < experts_.size(); ++e) {
    const auto own = sums.subspan(e * kExpertSums, kExpertSums);
    add_expert(e, groups, z, own, out);
    add_sample(e, sample.view(), own);
  }
  const auto of_bases = sums.subspan(experts_.size() * kExpertSums);
  if (of_bases.empty()) return;
  add_gram(z, of_bases[0]);
  add_gram(ConstMatrixView(out), of_bases[1]);
}

// Adds what one expert computes for the tokens that have chosen it.
void OpenMixture::add_expert(size_t expert, const ops::ExpertGroups& groups, ConstMatrixView x,
                             std::span<DoubleMatrix> sums, MutableMatrixView out) const {
  const auto index = static_cast<int64_t>(expert);
  const auto first = static_cast<size_t>(groups.first[expert]);
  const auto count = static_cast<size_t>(groups.tokens_of(index));
  if (count == 0) return;
  const auto rows = std::span(groups.rows).subspan(first, count);
  const auto weights = std::span(groups.weights).subspan(first, count);
  std::vector<float> squares;
  for (const float weight : weights) squares.push_back(weight * weight);
  Matrix inputs = rows_at(x, rows), outputs(inputs.rows(), out.columns);
  const OpenMlp& mlp = *experts_[expert];
  Matrix neurons = mlp.neurons_of(inputs.view(), squares, sums[kOwnGates], sums[kOwnUps]);
  mlp.finish(neurons.view(), outputs.view());
  scale_rows(outputs, weights);
  for (size_t i = 0; i < count; ++i) {
    const float* const from = outputs.row(static_cast<int64_t>(i));
    float* const to = out.row(rows[i]);
    for (int64_t j = 0; j < out.columns; ++j) to[j] += from[j];
  }
  scale_rows(neurons, weights);
  add_gram(neurons.view(), sums[kOwnNeurons]);
  if (sums[kOwnIn].rows() > 1) {
    scale_rows(inputs, weights);
    add_gram(inputs.view(), sums[kOwnIn]);
  }
  DoubleMatrix& counts = sums[kCounts];
  counts(0, kChosen) += static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    counts(0, kWeightSum) += double{weights[i]};
    counts(0, kSquareSum) += double{squares[i]};
  }
}

void OpenMixture::add_sample(size_t expert, ConstMatrixView sample,
                             std::span<DoubleMatrix> sums) const {
  const Matrix neurons =
      experts_[expert]->neurons_of(sample, {}, sums[kSampleGates], sums[kSampleUps]);
  add_gram(neurons.view(), sums[kSampleNeurons]);
  sums[kCounts](0, kSampled) += static_cast<double>(sample.rows);
}

Status write_expert_statistics(const fs::path& path, const io::ModelConfig& config, int64_t tokens,
                               DoubleMatrix& in, DoubleMatrix& residual,
                               std::span<DoubleMatrix*> sums, const std::string& source) {
  const int64_t experts = config.experts->count;
  NMM_CHECK(sums.size() == expert_sum_shapes(config, Gathered::kMlps).size());
  const auto of_expert = [&](int64_t e) {
    return sums.subspan(static_cast<size_t>(e) * kExpertSums, kExpertSums);
  };
  double squares = 0.0, chosen = 0.0;
  for (int64_t e = 0; e < experts; ++e) {
    squares += (*of_expert(e)[kCounts])(0, kSquareSum);
    chosen += (*of_expert(e)[kCounts])(0, kChosen);
  }
  const auto text = static_cast<double>(tokens),
             enough = static_cast<double>(enough_tokens_of_expert(config));
  std::vector<Mean> means = layer_means(config);
  std::vector<DoubleMatrix*> written = {&in, &residual};
  for (DoubleMatrix* const sum : sums.subspan(static_cast<size_t>(experts) * kExpertSums)) {
    written.push_back(sum);
  }
  const DoubleMatrix& read = has_bases(config) ? *written[kBasisIn] : in;
  for (int64_t e = 0; e < experts; ++e) {
    const auto own = of_expert(e);
    DoubleMatrix& counts = *own[kCounts];
    const bool of_layer = counts(0, kChosen) < enough;
    if (of_layer) complete_expert(own, read, enough, text, chosen > 0.0 ? squares / chosen : 1.0);
    counts(0, kSampled) = of_layer ? text : 0.0;  // the file says so by 1 or 0
    for (const Mean& mean : expert_means(config, e)) means.push_back(mean);
    for (const ExpertSum sum : {kOwnNeurons, kOwnGates, kOwnUps, kCounts}) {
      written.push_back(own[sum]);
    }
    if (own[kOwnIn]->size() != in.size()) continue;
    means.push_back(input_mean(config, e));
    written.push_back(own[kOwnIn]);
  }
  return write_means(path, means, written, tokens, source);
}

Status check_expert_statistics(const fs::path& path, const io::ModelConfig& config) {
  std::vector<Mean> means = layer_means(config);
  for (int64_t e = 0; e < config.experts->count; ++e) {
    for (const Mean& mean : expert_means(config, e)) means.push_back(mean);
  }
  return check_means(path, means);
}

Result<MlpStatistics> read_expert_statistics(const fs::path& work, int64_t layer, int64_t expert,
                                             const io::ModelConfig& config) {
  const fs::path path = statistics_path(work, layer);
  const std::vector<Mean> of_layer = layer_means(config);
  std::vector<Mean> wanted = expert_means(config, expert);
  wanted.back() = of_layer[kLayerResidual];
  wanted.push_back(input_mean(config, expert));
  const auto file = io::SafetensorsFile::open(path);
  if (file.ok() && !file->tensors().contains(wanted.back().name)) {
    wanted.back() = of_layer[has_bases(config) ? kBasisIn : kLayerIn];
  }
  NMM_ASSIGN(auto means, read_means(path, wanted));
  return MlpStatistics{std::move(means[4]), std::move(means[0]), std::move(means[1]),
                       std::move(means[2]), std::move(means[3])};
}

Result<DoubleMatrix> read_layer_inputs(const fs::path& work, int64_t layer,
                                       const io::ModelConfig& config) {
  NMM_ASSIGN(auto means,
             read_means(statistics_path(work, layer), {{layer_means(config)[kLayerIn]}}));
  return std::move(means[0]);
}

Result<DoubleMatrix> read_basis_outputs(const fs::path& work, int64_t layer,
                                        const io::ModelConfig& config) {
  NMM_CHECK(has_bases(config));
  NMM_ASSIGN(auto means,
             read_means(statistics_path(work, layer), {{layer_means(config)[kBasisOut]}}));
  return std::move(means[0]);
}

Result<std::vector<std::vector<ExpertUse>>> read_expert_uses(const fs::path& work,
                                                             const io::ModelConfig& config) {
  std::vector<std::vector<ExpertUse>> layers(static_cast<size_t>(config.num_hidden_layers));
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_mixture(layer)) continue;
    std::vector<Mean> wanted;
    for (int64_t e = 0; e < config.experts->count; ++e) {
      wanted.push_back(expert_means(config, e).back());
    }
    NMM_ASSIGN(const auto means, read_means(statistics_path(work, layer), wanted));
    for (const DoubleMatrix& mean : means) {
      layers[static_cast<size_t>(layer)].push_back(
          {mean(0, kChosen), mean(0, kWeightSum), mean(0, kSquareSum), mean(0, kSampled) > 0.5});
    }
  }
  return layers;
}

std::string completed_experts(const std::vector<std::vector<ExpertUse>>& uses) {
  std::string text;
  for (size_t layer = 0; layer < uses.size(); ++layer) {
    std::string of_layer;
    for (size_t e = 0; e < uses[layer].size(); ++e) {
      if (!uses[layer][e].of_layer) continue;
      of_layer += fmt::format("{}{}", of_layer.empty() ? "" : ", ", e);
    }
    if (of_layer.empty()) continue;
    text += fmt::format("{}layer {}: {}", text.empty() ? "" : "; ", layer, of_layer);
  }
  return text;
}

}  // namespace neuronmm::compress
