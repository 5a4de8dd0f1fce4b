#pragma once
// This file computes what the fused kernels gain over the paper's baselines: for every number of
// rows, on average, and at the shapes of models. The averages are compared with those that the
// paper states. The figures kernels and traffic end with these tables.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "paper/paper_pivoted.h"
#include "trainium/validation/validation.h"

namespace neuronmm::apps {

// A baseline's time or traffic, and that of the fused kernels. NaN stands for a value that is not
// published.
struct GainRow {
  double published_baseline = 0, published_fused = 0;
  double simulated_baseline = 0, simulated_fused = 0, pivoted = 0;
};

// The gains over one baseline, by M.
struct BaselineGains {
  std::string_view baseline;  // "NKI XW" or "NKI XUV".
  double stated = 0;          // The paper's own average, or its value at the largest M.
  std::string_view stated_as;
  std::map<int64_t, GainRow> rows;
};

// Computes the gains in latency (kMilliseconds) or in HBM traffic (kHbmGib) over both baselines.
// Simulates the programs whose traffic is not published. Fails if one cannot be simulated.
Result<std::vector<BaselineGains>> gains_over_baselines(const std::vector<validation::Row>& rows,
                                                        const PivotedRuns& pivoted,
                                                        validation::Quantity quantity);

// Returns a table by M. Below it stand the average of the ratios, the ratio of the sums and what
// the paper states. Both means cover the M with published values.
std::string gains_text(const std::vector<BaselineGains>& gains);
nlohmann::ordered_json gains_json(const std::vector<BaselineGains>& gains,
                                  validation::Quantity quantity);

// The gains in latency for one weight of a model at ratio 0.2. Nothing is published of them.
struct ShapeGain {
  std::string weight;
  kernels::KernelShape shape;
  double flops = 0, over_xw = 0, over_xuv = 0;  // `flops` is the ratio of the FLOPs of X·W.
};
// Simulates both weights of the MLPs of the paper's models, with 4096 rows, on trn1.
Result<std::vector<ShapeGain>> gains_at_model_shapes();
std::string shapes_text(const std::vector<ShapeGain>& gains);
nlohmann::ordered_json shapes_json(const std::vector<ShapeGain>& gains);

}  // namespace neuronmm::apps
