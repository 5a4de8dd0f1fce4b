#pragma once
// The metric of a two-sided compression objective (finetune/output_metric.h), computed by the
// program that links libtorch.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "model/trainer.h"
#include "text/tokenizer.h"

namespace neuronmm::apps {

struct MetricCall {
  std::filesystem::path model;  // of float weights
  std::vector<std::vector<text::TokenId>> sequences;
  std::filesystem::path out;  // the metric's file; OUT.tokens lies beside it meanwhile
  int threads = 0;            // 0: all cores
  uint64_t seed = 0;          // of the labels that are drawn
  bool silent = false;        // without progress
};

// Whether neuronmm-finetune lies beside this program.
bool metric_program_available();

// Waits for the program, which shows its own progress on standard error. Its errors are this
// function's; an interrupt is passed on and comes back as one. Also an error: a program that is not
// there, that cannot be run, or that a signal has ended.
Status run_metric_program(const MetricCall& call);
Status run_metric_program(const MetricCall& call, const std::filesystem::path& program);

}  // namespace neuronmm::apps
