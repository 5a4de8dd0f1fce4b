#pragma once
// Ranks of single matrices by what their truncation is measured to cost the model.

#include <filesystem>

#include "base/result.h"
#include "compress/gram.h"
#include "compress/inputs.h"
#include "compress/plan.h"

namespace neuronmm::compress {

// Returns the plan in the place of `uniform`, with at most as many parameters: the sensitivity of
// every matrix is measured (sensitivity.h) and ranks are allocated by it (allocate.h). Measuring
// takes minutes, so that the ranks stay in `work`; an interrupted measurement begins again.
Result<Plan> plan_by_measurement(const CompressionInputs& inputs, const Plan& uniform,
                                 int64_t block, const WeightFormats& weights,
                                 const GramSource& grams, const std::filesystem::path& work);

}  // namespace neuronmm::compress
