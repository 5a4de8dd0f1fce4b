#pragma once
// This file declares the figures and tables of `neuronmm paper`, which compare published
// measurements with simulated ones. paper.cc calls one function per FIGURE argument. The functions
// fail with a message for the user if a choice does not fit the figure.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "plot/bar_chart.h"

namespace neuronmm::apps {

// A figure as text for the terminal, as JSON and as charts.
struct Figure {
  std::string text, json;
  std::vector<BarChart> charts;
};

Result<Figure> kernels_figure();  // Compares the latency of NKI XW, NKI XUV and NeuronMM at six M.
Result<Figure> traffic_figure();  // Compares the HBM traffic of the same kernels.
Result<Figure> blocks_figure();   // Shows the sweep of the row block.
// Compares all published measurements with the timing model.
Result<Figure> validation_figure();

// The models, rows of X, cores and devices that a figure is restricted to. An empty list selects
// all values of the figure. The figures search for tilings, or take them from the user's cache
// file.
struct Choice {
  std::vector<std::string> models;
  std::vector<int64_t> rows;
  std::vector<int64_t> cores;  // For end-to-end, which uses one core if the list is empty.
  // For forms, and for end-to-end on several cores, which uses trn1 if the list is empty.
  std::vector<std::string> devices;
  double kept_share = 0.8;  // For forms: the share of the MLPs' parameters that is kept.
};
// Compares tuned tilings with the paper's (paper_tuning.cc).
Result<Figure> tuning_figure(const Choice& choice);
// Compares one fused kernel with several (paper_mlp.cc).
Result<Figure> fused_mlp_figure(const Choice& choice);
// Compares forms of MLPs (paper_model_forms.cc).
Result<Figure> forms_figure(const Choice& choice);
// Compares speed-ups (paper_end_to_end.cc).
Result<Figure> end_to_end_figure(const Choice& choice);
// Shows accuracies, perplexities and gamma (paper_quality.cc).
Result<Figure> quality_figure(const Choice& choice);
// Shows end-to-end with several cores (paper_tensor_parallel.cc).
Result<Figure> tensor_parallel_figure(const Choice& choice);

}  // namespace neuronmm::apps
