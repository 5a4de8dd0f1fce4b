#pragma once
// Factors and narrow MLPs of one layer as jobs for any process.

#include <optional>
#include <vector>

#include "compress/factorize.h"
#include "compress/gram.h"
#include "compress/layer_job.h"
#include "compress/mlp_matrix.h"
#include "compress/narrow_mlp.h"

namespace neuronmm::compress {

// narrow_mlp().
LayerJob narrow_job(int64_t layer, const MlpStatistics& statistics, const MlpMetric& metric,
                    const std::vector<int32_t>& order, const io::MlpShape& shape,
                    const StoredFormat& stored);
Result<Bytes> run_narrow_job(const JobContext& context, const LayerJob& job);
NarrowMlp read_narrow_result(MessageReader& in);

// The factors of some matrices of a layer, each at its rank. Without Gram matrices: plain SVD.
struct MatrixToFactorize {
  MlpMatrix matrix = MlpMatrix::kGate;
  int64_t rank = 0;
  StoredFormat stored;
};
LayerJob factors_job(int64_t layer, const std::vector<MatrixToFactorize>& matrices,
                     const std::optional<LayerGrams>& grams);
Result<Bytes> run_factors_job(const JobContext& context, const LayerJob& job);
// One per matrix, in their order.
std::vector<Factors> read_factors_result(MessageReader& in);

}  // namespace neuronmm::compress
