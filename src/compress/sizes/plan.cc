#include "compress/sizes/plan.h"

#include <algorithm>
#include <cmath>

#include "io/shards.h"
#include "model/tensor_specs.h"

namespace neuronmm::compress {
namespace {

// Returns the bytes of a tensor on disk, including the scales and groups of a rounded one.
int64_t stored_bytes(const io::TensorSpec& spec, const std::optional<LowBitFormat>& rounding) {
  int64_t bytes = 0;
  for (const io::TensorSpec& stored : model::stored_specs(spec, rounding)) {
    bytes += io::size_bytes(stored);
  }
  return bytes;
}

// Returns the sizes of the model of this config. "Before" is as it is, and "after" is with weights
// of the given formats.
Plan dense_plan(const io::ModelConfig& config, const WeightFormats& weights) {
  const auto quantization = quantization_of(weights, config);
  Plan plan;
  for (const io::TensorSpec& spec : model::tensor_specs(config)) {
    if (is_float(spec.dtype)) plan.parameters_before += TensorView{spec.dtype, spec.shape}.size();
    plan.bytes_before += io::size_bytes(spec);
    std::optional<LowBitFormat> rounding;
    if (quantization) rounding = model::rounding_of(spec.name, config, *quantization);
    plan.bytes_after += stored_bytes(spec, rounding);
  }
  plan.parameters_after = plan.parameters_before;
  return plan;
}

// Return the bytes of a weight [out, in], and of a map of pivots. The name does not matter to them.
int64_t matrix_bytes(const io::ModelConfig& config, int64_t out, int64_t in,
                     const WeightFormats& weights) {
  return stored_bytes({"", config.dtype, {out, in}},
                      weights ? std::optional(weights->linear) : std::nullopt);
}
int64_t map_bytes(const io::ModelConfig& config, int64_t out, int64_t in,
                  const WeightFormats& weights) {
  return stored_bytes({"", config.dtype, {out, in}},
                      weights ? std::optional(kMapFormat) : std::nullopt);
}

// Returns the plan of a matrix that stays dense.
MatrixPlan dense_matrix(const io::ModelConfig& config, int64_t layer, MlpMatrix matrix,
                        const WeightFormats& weights) {
  MatrixPlan plan;
  plan.layer = layer;
  plan.matrix = matrix;
  const bool down = matrix == MlpMatrix::kDown;
  plan.in_features = down ? config.intermediate_size : config.hidden_size;
  plan.out_features = down ? config.hidden_size : config.intermediate_size;
  plan.bytes_before = plan.in_features * plan.out_features * dtype_size_bytes(config.dtype);
  plan.bytes_after = matrix_bytes(config, plan.out_features, plan.in_features, weights);
  return plan;
}

// Fails if the rank keeps nothing or saves nothing, and says what could be done about it.
Status check_rank(const MatrixPlan& plan, const RankRule& rule, const std::string& source) {
  const std::string where =
      fmt::format("{}: layer {} {} (K {} x N {})", source, plan.layer, matrix_name(plan.matrix),
                  plan.in_features, plan.out_features);
  if (plan.rank == 0) {
    return fail("{}: ratio {} with block {} gives rank 0; use a smaller ratio or a smaller block",
                where, rule.ratio, rule.block);
  }
  if (!saves_parameters(plan.in_features, plan.out_features, plan.rank)) {
    const double k = static_cast<double>(plan.in_features);
    const double n = static_cast<double>(plan.out_features);
    return fail(
        "{}: ratio {} with block {} gives rank {}, which saves nothing (break-even is {:.1f}); use "
        "a larger ratio or a smaller block",
        where, rule.ratio, rule.block, plan.rank, k * n / (k + n));
  }
  return {};
}

}  // namespace

// Three matrices per layer, in the order of MlpMatrix.
const MatrixPlan& Plan::matrix_plan(int64_t layer, MlpMatrix matrix) const {
  return matrices.at(static_cast<size_t>(3 * layer + static_cast<int64_t>(matrix)));
}

std::vector<io::MlpShape> Plan::mlp_shapes() const {
  if (!shapes.empty()) return shapes;
  std::vector<io::MlpShape> ranks;
  for (size_t i = 0; i < matrices.size(); i += 3) {
    ranks.push_back({matrices[i].rank, matrices[i + 1].rank, matrices[i + 2].rank});
  }
  return ranks;
}

// The sizes of the whole model are those of the dense one, minus the matrices that factors replace,
// plus the factors.
Plan plan_of_ranks(const io::ModelConfig& config, const std::vector<int64_t>& ranks,
                   const WeightFormats& weights) {
  Plan plan = dense_plan(config, weights);
  for (size_t i = 0; i < ranks.size(); ++i) {
    MatrixPlan matrix =
        dense_matrix(config, static_cast<int64_t>(i / 3), kMlpMatrices[i % 3], weights);
    if (const int64_t rank = ranks[i]; rank > 0) {
      const int64_t k = matrix.in_features, n = matrix.out_features;
      matrix.rank = rank;
      matrix.kept_share = kept_share(k, n, rank);
      plan.bytes_after -= matrix.bytes_after;
      matrix.bytes_after =
          matrix_bytes(config, rank, k, weights) + matrix_bytes(config, n, rank, weights);
      plan.bytes_after += matrix.bytes_after;
      plan.parameters_after += rank * (k + n) - k * n;
    }
    plan.matrices.push_back(matrix);
  }
  return plan;
}

// The sizes of the whole model follow from the names and shapes that will be written.
Plan plan_of_shapes(const io::ModelConfig& config, Form form, std::vector<io::MlpShape> shapes,
                    const WeightFormats& weights) {
  Plan plan = dense_plan(config, weights);
  io::ModelConfig after = config;
  after.compression.emplace();
  after.compression->form = form_name(form);
  after.compression->ranks = shapes;
  const Plan sizes = dense_plan(after, weights);
  plan.parameters_after = sizes.parameters_before;
  plan.bytes_after = sizes.bytes_after;
  const int64_t hidden = config.hidden_size;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const io::MlpShape& shape = shapes[static_cast<size_t>(layer)];
    const int64_t neurons = shape.neurons > 0 ? shape.neurons : config.intermediate_size;
    for (const MlpMatrix which : kMlpMatrices) {
      MatrixPlan matrix = dense_matrix(config, layer, which, weights);
      const int64_t own = which == MlpMatrix::kGate ? shape.gate
                          : which == MlpMatrix::kUp ? shape.up
                                                    : shape.down;
      const int64_t shared = which == MlpMatrix::kDown ? 0 : shape.input;
      const int64_t width = own > 0 ? own : shared > 0 ? shared : hidden;
      const bool has_map = own > 0 || (shared > 0 && which == MlpMatrix::kGate);
      const int64_t mapped = form == Form::kUv ? hidden : hidden - width;
      const int64_t map = has_map ? width * mapped : 0;
      matrix.rank = own > 0 ? own : shared;
      matrix.kept_share = static_cast<double>(neurons * width + map) /
                          static_cast<double>(config.intermediate_size * hidden);
      // Scales belong to groups within a row, so rows and columns must not be swapped.
      const bool down = which == MlpMatrix::kDown;
      matrix.bytes_after = down ? matrix_bytes(config, width, neurons, weights)
                                : matrix_bytes(config, neurons, width, weights);
      if (has_map) {
        const auto of_map = form == Form::kUv ? matrix_bytes : map_bytes;
        matrix.bytes_after +=
            down ? of_map(config, mapped, width, weights) : of_map(config, width, mapped, weights);
      }
      plan.matrices.push_back(matrix);
    }
  }
  plan.form = form;
  plan.shapes = std::move(shapes);
  return plan;
}

Plan plan_of_experts(const io::ModelConfig& config, const io::ModelConfig& after, Form form,
                     const WeightFormats& weights) {
  Plan plan = dense_plan(config, weights);
  const Plan sizes = dense_plan(after, weights);
  plan.parameters_after = sizes.parameters_before;
  plan.bytes_after = sizes.bytes_after;
  plan.form = form;
  return plan;
}

double kept_share(const Plan& plan, const RankRule& rule) {
  int64_t kept = 0, all = 0;
  for (const MlpMatrix which : kMlpMatrices) {
    const MatrixPlan& matrix = plan.matrix_plan(0, which);
    const int64_t k = matrix.in_features, n = matrix.out_features;
    kept += aligned_rank(k, n, rule) * (k + n);
    all += k * n;
  }
  return all == 0 ? 1.0 : static_cast<double>(kept) / static_cast<double>(all);
}

std::optional<int64_t> finer_block(const Plan& plan, RankRule rule, double tolerance) {
  for (rule.block /= 2; rule.block >= 1; rule.block /= 2) {
    const double missed = kept_share(plan, rule) - (1.0 - rule.ratio);
    if (std::abs(missed) <= tolerance) return rule.block;
  }
  return std::nullopt;
}

Status check_uncompressed(const io::ModelConfig& config, const std::string& source) {
  if (!config.compression) return {};
  return fail(
      "{}: this model is compressed already (method {}, ratio {:.3f}); compress the original",
      source, config.compression->method, config.compression->ratio);
}

Result<Plan> make_plan(const io::ModelConfig& config, const RankRule& rule,
                       const WeightFormats& weights, const std::string& source) {
  NMM_TRY(check_uncompressed(config, source));
  std::vector<int64_t> ranks;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (const MlpMatrix which : kMlpMatrices) {
      MatrixPlan matrix = dense_matrix(config, layer, which, weights);
      matrix.rank = aligned_rank(matrix.in_features, matrix.out_features, rule);
      NMM_TRY(check_rank(matrix, rule, source));
      ranks.push_back(matrix.rank);
    }
  }
  return plan_of_ranks(config, ranks, weights);
}

}  // namespace neuronmm::compress
