#pragma once
// What the layers' predicted losses are worth against each other. Within a layer Fisher's
// information (mlp_metric.h) ranks what to give up; between layers it is half of the truth. It is
// of first order, and what a layer does to the ones behind it is not: it makes little of errors in
// early layers, which all later ones work on. The local metric, for which an error counts by its
// share of the residual stream, errs to the other side. With scales half way between the two
// (the geometric mean) SmolLM2 in form mixed loses least, in nats on 8 windows of WikiText-2's test
// text behind those that docs/quality.md reports on, and on 8 of other web pages:
//
//   kept  Fisher's scale  half way       the local scale  whitened, for comparison
//   .9    .113 and .194   .093 and .159  .095 and .155    .100 and .170
//   .8    .267 and .433   .231 and .355  .251 and .361    .262 and .396

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// A factor per layer for its losses, with a geometric mean of 1, so that their sum stays in nats:
// (tr(out) · mean square of the hidden state after the layer)^-½. `metric` is the file of
// read_metric, `statistics` the folder of read_statistics. A layer where either is 0 gets 1.
Result<std::vector<double>> balance_factors(const std::filesystem::path& metric,
                                            const std::filesystem::path& statistics,
                                            const io::ModelConfig& config);

}  // namespace neuronmm::compress
