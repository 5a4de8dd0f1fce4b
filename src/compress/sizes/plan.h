#pragma once
// Plans a compression from config.json alone: every MLP matrix with its rank and size, and the
// whole model before and after. `compress` shows and runs a plan, and the writer of the model
// follows it. Letters: K in-features, N out-features, r rank.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/factors/mlp_matrix.h"
#include "compress/rounding/quantized_formats.h"
#include "compress/sizes/form.h"
#include "compress/sizes/rank.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// The plan of one MLP matrix.
struct MatrixPlan {
  int64_t layer = 0;
  MlpMatrix matrix = MlpMatrix::kGate;
  int64_t in_features = 0, out_features = 0;
  int64_t rank = 0;  // 0: the matrix stays dense
  double kept_share = 1.0;
  int64_t bytes_before = 0, bytes_after = 0;
};

// The plan of a model. `shapes` is empty if matrices are factorized one by one.
struct Plan {
  std::vector<MatrixPlan> matrices;  // three per layer: gate, up, down
  Form form = Form::kUv;
  std::vector<io::MlpShape> shapes;  // one per layer, if MLPs are narrowed as a whole
  int64_t parameters_before = 0, parameters_after = 0;
  int64_t bytes_before = 0, bytes_after = 0;

  const MatrixPlan& matrix_plan(int64_t layer, MlpMatrix matrix) const;
  // Returns `shapes`, or the ranks of the matrices as shapes if it is empty.
  std::vector<io::MlpShape> mlp_shapes() const;
};

// Returns the share of the MLPs' parameters that the ranks of `rule` keep. It uses the sizes of the
// plan's first layer, because all layers have the same sizes.
double kept_share(const Plan& plan, const RankRule& rule);

// Returns the largest block among a half, a quarter, ... of the rule's block at which that share
// differs from 1 - ratio by at most `tolerance`. Returns nothing if even blocks of 1 do not reach
// it.
std::optional<int64_t> finer_block(const Plan& plan, RankRule rule, double tolerance);

// Returns the plan of these ranks, three per layer: gate, up, down. A rank of 0 leaves the matrix
// dense.
Plan plan_of_ranks(const io::ModelConfig& config, const std::vector<int64_t>& ranks,
                   const WeightFormats& weights);

// Fails if the model is compressed already. `source` is what messages call the model.
Status check_uncompressed(const io::ModelConfig& config, const std::string& source);

// Returns the plan of these shapes, one per layer. The share and bytes of a matrix include the map
// of its own pivots. The map that gate and up share counts for gate.
Plan plan_of_shapes(const io::ModelConfig& config, Form form, std::vector<io::MlpShape> shapes,
                    const WeightFormats& weights);

// Returns the plan of a mixture of experts that becomes the model `after`. It has sizes of the
// whole model only.
Plan plan_of_experts(const io::ModelConfig& config, const io::ModelConfig& after, Form form,
                     const WeightFormats& weights);

// Returns the plan in which the rank of every matrix follows from `rule`. Fails if a rank is 0 or
// at or above break-even, and if the model is compressed already. `source` is what messages call
// the model.
Result<Plan> make_plan(const io::ModelConfig& config, const RankRule& rule,
                       const WeightFormats& weights, const std::string& source);

}  // namespace neuronmm::compress
