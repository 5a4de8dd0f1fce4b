#pragma once
// The figures and tables of `neuronmm paper`: published measurements beside simulated ones.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "plot/bar_chart.h"

namespace neuronmm::apps {

struct Figure {
  std::string text, json;
  std::vector<BarChart> charts;
};

Result<Figure> kernels_figure();  // latency of NKI XW, NKI XUV and NeuronMM at six M
Result<Figure> traffic_figure();  // their bytes over HBM
Result<Figure> blocks_figure();   // the sweep of the row block
Result<Figure> validation_figure();

// Of these models, by name, and these numbers of rows of X; empty: all of the figure. Tilings are
// searched for, or come from the user's cache file.
struct Choice {
  std::vector<std::string> models;
  std::vector<int64_t> rows;
  std::vector<int64_t> cores;  // end-to-end, which is of one core without
  // forms, and end-to-end of several cores
  std::vector<std::string> devices = {"trn1", "trn2", "trn3"};
  double keep = 0.8;  // forms: of the MLPs' parameters
};
Result<Figure> tuning_figure(const Choice& choice);      // beside the paper's (paper_tuning.cc)
Result<Figure> fused_mlp_figure(const Choice& choice);   // beside several kernels (paper_mlp.cc)
Result<Figure> forms_figure(const Choice& choice);       // of MLPs (paper_model_forms.cc)
Result<Figure> end_to_end_figure(const Choice& choice);  // speed-ups (paper_end_to_end.cc)
// end-to-end with cores (paper_tensor_parallel.cc)
Result<Figure> tensor_parallel_figure(const Choice& choice);

}  // namespace neuronmm::apps
