#pragma once
// What a compression will do, known from config.json alone: every MLP matrix with its rank and
// size, and the whole model before and after. Letters: K in-features, N out-features, r rank.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/form.h"
#include "compress/mlp_matrix.h"
#include "compress/quantized_formats.h"
#include "compress/rank.h"
#include "io/model_config.h"

namespace neuronmm::compress {

struct MatrixPlan {
  int64_t layer = 0;
  MlpMatrix matrix = MlpMatrix::kGate;
  int64_t in_features = 0, out_features = 0;
  int64_t rank = 0;  // 0: stays dense
  double kept_share = 1.0;
  int64_t bytes_before = 0, bytes_after = 0;
};

struct Plan {
  std::vector<MatrixPlan> matrices;  // three per layer: gate, up, down
  Form form = Form::kUv;
  std::vector<io::MlpShape> shapes;  // per layer, where MLPs are narrowed as a whole
  int64_t parameters_before = 0, parameters_after = 0;
  int64_t bytes_before = 0, bytes_after = 0;

  const MatrixPlan& of(int64_t layer, MlpMatrix matrix) const;
  std::vector<io::MlpShape> ranks() const;
};

// The share of the MLPs' parameters that the rule's ranks keep, for the sizes of this plan's first
// layer (all layers are alike).
double kept_share(const Plan& plan, const RankRule& rule);

// The largest of half, a quarter ... of the rule's block at which that share is within `tolerance`
// of the 1 - ratio that was asked for; nothing where not even single ranks are.
std::optional<int64_t> finer_block(const Plan& plan, RankRule rule, double tolerance);

// The plan of these ranks, three per layer: gate, up, down; 0: stays dense.
Plan plan_of_ranks(const io::ModelConfig& config, const std::vector<int64_t>& ranks,
                   const WeightFormats& weights);

// Refused: a model that is compressed already. `source` is what messages call it.
Status check_uncompressed(const io::ModelConfig& config, const std::string& source);

// The plan of these shapes, one per layer. A matrix' share and bytes include its own pivots' map;
// the map that gate and up share counts for gate.
Plan plan_of_shapes(const io::ModelConfig& config, Form form, std::vector<io::MlpShape> shapes,
                    const WeightFormats& weights);

// The same rank, by `rule`, for all matrices. Refused: a rank of 0, a rank at or above
// break-even, and a model that is compressed already. `source` is what messages call the model.
Result<Plan> make_plan(const io::ModelConfig& config, const RankRule& rule,
                       const WeightFormats& weights, const std::string& source);

}  // namespace neuronmm::compress
