#pragma once
// Jobs that narrow or factorize the MLP of one layer, so that any process can do it (layer_job.h).
// Process 0 makes the jobs and reads the results; the other processes run them.

#include <optional>
#include <vector>

#include "compress/factors/factorize.h"
#include "compress/factors/mlp_matrix.h"
#include "compress/factors/narrow_mlp.h"
#include "compress/linear_algebra/gram.h"
#include "compress/statistics/layer_job.h"

namespace neuronmm::compress {

// Makes a job that calls narrow_mlp(), runs it, and reads its result.
LayerJob narrow_job(int64_t layer, const MlpStatistics& statistics, const MlpMetric& metric,
                    const std::vector<int32_t>& order, const io::MlpShape& shape,
                    const StoredFormat& stored);
Result<Bytes> run_narrow_job(const JobContext& context, const LayerJob& job);
NarrowMlp read_narrow_result(MessageReader& in);

// A matrix to factorize, its rank and its format.
struct MatrixToFactorize {
  MlpMatrix matrix = MlpMatrix::kGate;
  int64_t rank = 0;
  StoredFormat stored;
};
// Makes a job that factorizes some matrices of a layer, and runs it. Without Gram matrices the
// factors come from the plain SVD.
LayerJob factors_job(int64_t layer, const std::vector<MatrixToFactorize>& matrices,
                     const std::optional<LayerGrams>& grams);
Result<Bytes> run_factors_job(const JobContext& context, const LayerJob& job);
// Reads the factors, one pair per matrix, in the order of the job's matrices.
std::vector<Factors> read_factors_result(MessageReader& in);

}  // namespace neuronmm::compress
