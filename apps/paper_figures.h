#pragma once
// The figures and tables of `neuronmm paper`: published measurements beside simulated ones.

#include <string>
#include <vector>

#include "base/result.h"
#include "svg_plot.h"

namespace neuronmm::apps {

struct Figure {
  std::string text, json;
  std::vector<BarChart> charts;
};

Result<Figure> kernels_figure();  // latency of NKI XW, NKI XUV and NeuronMM at six M
Result<Figure> traffic_figure();  // their bytes over HBM
Result<Figure> blocks_figure();   // the sweep of the row block
Result<Figure> validation_figure();
Result<Figure> end_to_end_figure();  // speed-ups of four whole models (paper_end_to_end.cc)

}  // namespace neuronmm::apps
