#pragma once
// Chooses the ranks of single matrices by what their truncation is measured to cost the model.
// compress.cc calls it for `--form uv --allocate measured`.

#include <filesystem>

#include "base/result.h"
#include "compress/linear_algebra/gram.h"
#include "compress/sizes/plan.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// Returns a plan with at most as many parameters as `uniform`. The sensitivity of every matrix is
// measured (sensitivity.h), and ranks are allocated by it (allocate.h). Measuring takes minutes, so
// the ranks are kept in `work`. An interrupted measurement starts again.
Result<Plan> plan_by_measurement(const CompressionInputs& inputs, const Plan& uniform,
                                 int64_t block, const WeightFormats& weights,
                                 const GramSource& grams, const std::filesystem::path& work);

}  // namespace neuronmm::compress
