#pragma once
// From a model and a budget to the best model within it: one search over the shape of every MLP and
// the bits of every matrix.
//
// What single changes cost is measured on a text once and kept in a folder, from which any later
// budget is served; what they save is timed at the start. The choice is a knapsack (search.h). The
// model that is written is measured for real, on text that nothing was decided on; where it misses
// the budget, the prediction is corrected by what was measured, and the search done once more.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/option_names.h"
#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "compress/statistics/gathered_statistics.h"
#include "eval/interval.h"
#include "fit/costs.h"
#include "fit/search.h"

namespace neuronmm::fit {

// What is asked for; at least one. Speeds are beside the model as it is given, on the device.
struct Budget {
  std::optional<double> bytes;            // of all weights, at most
  std::optional<double> decode, prefill;  // times as fast, at least
  std::optional<double> divergence;       // KL(model ‖ result), nats per token, at most
};

struct FitRequest {
  std::filesystem::path model, out;
  Budget budget;
  compress::CalibrationText calibration;
  // The folder of what is known of the model, made where it is not there. Runs that share one wait
  // for each other.
  std::filesystem::path sensitivities;
  std::string method = "two-sided";  // of the statistics; "whitened" needs no metric
  int64_t block = 32;                // of shapes
  bool plan_only = false;            // nothing is written but the sensitivities
  bool force = false;                // replace an existing output folder
};

// What a caller gave; what was left out has no value.
struct FitGiven {
  std::filesystem::path model, out;
  Budget budget;
  std::vector<std::string> calibration;  // the names of the texts
  std::optional<int64_t> calibration_tokens, block;
  std::filesystem::path sensitivities;  // empty: not given
  bool simulated = false;               // the device is a simulated NeuronCore
  bool can_make_metric = true;          // the program that makes the output metric can be run
  bool plan_only = false, force = false;
};
struct FitSettings {
  FitRequest request;              // its texts have names and no contents yet
  std::vector<std::string> notes;  // what was not done as it was asked, a sentence each
};
// Returns complete settings, or an error that names what is missing.
//
//   calibration_tokens  32768
//   sensitivities       the folder OUT.fit
//   block               32, the panel of the CPU's kernels; 128, a NeuronCore's tile, if simulated
//   method              two-sided; whitened where nobody can make the metric
Result<FitSettings> fit_settings(const FitGiven& given, OptionNames names);

// A model that was not made, as predicted.
struct Candidate {
  std::string name;
  Quantities predicted = {};
};

struct Measured {
  int64_t tokens = 0;
  eval::Estimate divergence;
  double dense_perplexity = 0.0, perplexity = 0.0;
  int64_t bytes = 0;
  Seconds dense, model;  // medians
  // How many times as fast the model is, run by run beside the dense one: the upper quartile, which
  // a machine that does other things reaches, too.
  double decode_quartile = 0.0, prefill_quartile = 0.0;
};

struct FitResult {
  Choice choice;
  Quantities dense = {};
  std::optional<Measured> measured;   // nothing of a plan
  bool corrected = false;             // the search was done again after a measurement
  std::vector<Candidate> singles;     // one form or one width throughout
  std::vector<Candidate> front;       // the least loss at several sizes
  std::vector<Candidate> fast_front;  // and prefill times
};

// `backend` runs the text on the host, `others` share what the text is gathered for. Errors: a
// model that is compressed or rounded, a budget that is met as the model is, and one that cannot be
// met, which names the nearest that can.
Result<FitResult> fit(const FitRequest& request, const Device& device, const ops::Backend& backend,
                      Progress& progress, const compress::MakeMetric& make_metric,
                      compress::DataParallel* others = nullptr);

}  // namespace neuronmm::fit
