#pragma once
// The tasks of `compress` and `quantize` in their order, with rough shares of the time, for one
// estimate of the whole command (base/time_estimate.h). A task that is not needed in the end, or
// that was not foreseen, makes the estimate worse and nothing else.

#include <vector>

#include "base/time_estimate.h"
#include "compress/quantize.h"
#include "compress/request.h"

namespace neuronmm::compress {

// `measures` says whether the result is compared with the dense model.
std::vector<ExpectedTask> expected_tasks(const CompressRequest& request, bool measures);
std::vector<ExpectedTask> expected_tasks(const QuantizeRequest& request);

}  // namespace neuronmm::compress
