#pragma once
// The command `fit`: finds the best model within a budget. One search chooses the shape of every
// MLP and the bits of every matrix.
//
// Narrower MLPs are measured only if rounding alone cannot keep to the budget, since they then lose
// more than rounding. The loss that each single change causes is measured on a text once and kept
// in a folder, which serves any later budget. The time that each change saves is measured at the
// start of a run. The choice itself is a knapsack problem (search.h). The written model is then
// measured on text that no decision was based on. If it misses the budget, the predictions are
// corrected by that measurement and the search is repeated once.
//
// It fails on models that are compressed or rounded already, on budgets that cannot be met, and on
// interrupts, after which finished measurements are kept.

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

// The limits of the wanted model, at least one of which is set. Speeds are relative to the given
// model on the same device.
struct Budget {
  // The largest number of bytes of all weights.
  std::optional<double> bytes;
  // The smallest allowed speed-ups.
  std::optional<double> decode, prefill;
  // The largest KL(model ‖ result), in nats per token.
  std::optional<double> divergence;
};

// Everything that one run needs: its folders, its budget and how it measures.
struct FitRequest {
  std::filesystem::path model, out;
  Budget budget;
  compress::CalibrationText calibration;
  // The folder with everything that has been measured of the model. It is created if it does not
  // exist. Runs that share one folder wait for each other.
  std::filesystem::path sensitivities;
  // Shapes are multiples of this number.
  int64_t block = 32;
  // The bits of the embedding table, 16 if it stays floats; nothing if the search chooses them.
  std::optional<int> embedding_bits = {};
  // Write nothing but the sensitivities.
  bool plan_only = false;
  bool force = false;  // replaces an existing output folder
};

// The settings that a caller gives. A setting that was left out has no value.
struct FitGiven {
  std::filesystem::path model, out;
  Budget budget;
  std::vector<std::string> calibration;  // the names of the texts
  std::optional<int64_t> calibration_tokens, block;
  std::optional<int> embedding_bits;
  std::filesystem::path sensitivities;  // empty if it was left out
  bool simulated = false;               // whether the device is a simulated NeuronCore
  bool plan_only = false, force = false;
};
// Returns the complete request, or an error that names what is missing. Its texts have names but no
// contents yet. The defaults are:
//
//   calibration_tokens  10240
//   sensitivities       the folder OUT.fit
//   block               32, the panel of the CPU's kernels; 128, a NeuronCore's tile, if simulated
Result<FitRequest> fit_settings(const FitGiven& given, OptionNames names);

// A model that was predicted but not made.
struct Candidate {
  std::string name;
  Quantities predicted = {};
};

// Measurements of the written model and of the dense one.
struct Measured {
  int64_t tokens = 0;
  eval::Estimate divergence;
  double dense_perplexity = 0.0, perplexity = 0.0;
  int64_t bytes = 0;
  Seconds dense, model;  // medians
  // The speed-up over the dense model, measured run by run with both models in turns. The upper
  // quartile is used, because a machine that does other work reaches it, too.
  double decode_quartile = 0.0, prefill_quartile = 0.0;
};

// The chosen model, its measurements, and other models to compare with.
struct FitResult {
  Choice choice;
  Quantities dense = {};
  std::optional<Measured> measured;  // empty if only a plan was asked for
  bool corrected = false;            // the search was repeated after a measurement
  // Models with one form or one number of bits throughout.
  std::vector<Candidate> uniform_models;
  // Models with the least loss at several sizes.
  std::vector<Candidate> front;
  // Models with the least loss at several prefill times.
  std::vector<Candidate> fast_front;
};

// Finds, writes and measures the best model. `backend` runs the text on the host. `helpers` are
// processes that share the gathering of statistics. Errors: a model that is compressed or rounded,
// a budget that the model meets as it is, and a budget that cannot be met. The last message names
// the nearest budget that can be met.
Result<FitResult> fit(const FitRequest& request, const Device& device, const ops::Backend& backend,
                      Progress& progress, compress::DataParallel* helpers = nullptr);

}  // namespace neuronmm::fit
