#pragma once
// Computes the metric of a two-sided compression objective (finetune/output_metric.h) by starting
// neuronmm-finetune, the only program that links libtorch. The commands `compress` and `fit` call
// it.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "compress/statistics/gathered_statistics.h"
#include "text/tokenizer/tokenizer.h"
#include "training/trainer.h"

namespace neuronmm::apps {

// The arguments of one computation.
struct MetricCall {
  std::filesystem::path model;  // a folder with float weights
  std::vector<std::vector<text::TokenId>> sequences;
  std::filesystem::path out;  // the file of the metric; OUT.tokens exists while the program runs
  int threads = 0;            // the number of threads; 0 means all that can compute at once
  uint64_t seed = 0;          // the seed of the labels that are drawn
  bool silent = false;        // whether no progress is shown
  // The share that the metric takes of the time that the whole command still needs. The program's
  // estimate is that of the whole command.
  double share_of_time = 1.0;
};

// Returns whether neuronmm-finetune is in the folder of this program and may be run.
bool metric_program_available();

// Runs the program and waits for its end. The program shows its own progress on standard error. An
// interrupt is passed on to it and returned as an interrupt. Errors: the errors of the program, and
// a program that is missing, cannot be run, or was ended by a signal.
Status run_metric_program(const MetricCall& call);
Status run_metric_program(const MetricCall& call, const std::filesystem::path& program);

// Returns the function by which the library gets the output metric of `model`. It runs the program
// with `threads` threads, as one task of the command that `progress` shows. `progress` must outlive
// the function.
compress::MakeMetric metric_maker(const std::filesystem::path& model, int threads,
                                  Progress& progress);

}  // namespace neuronmm::apps
