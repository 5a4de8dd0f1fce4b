#pragma once
// Statistics, metric and losses of a run: read where a folder has them, gathered from the text
// where it does not.

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compress/inputs.h"
#include "compress/mlp_statistics.h"
#include "compress/saved_statistics.h"

namespace neuronmm::compress {

// Writes the output metric of the dense model on these sequences (mlp_metric.h) to a file.
using MakeMetric = std::function<Status(const std::vector<std::vector<text::TokenId>>& sequences,
                                        const std::filesystem::path& file)>;

struct StatisticsRequest {
  // The folder that keeps them for other runs (saved_statistics.h); empty: the work folder.
  std::filesystem::path folder;
  const SavedStatistics* saved = nullptr;  // `folder`, if it was opened before; else null
  std::string_view method;                 // "whitened" or "two-sided", which has a metric
  Gathered what = Gathered::kMlps;         // at least; a folder that is made here has all
};

struct StatisticsFiles {
  std::filesystem::path statistics;  // the folder with a file per layer (mlp_statistics.h)
  std::filesystem::path metric;      // the file; empty: none is asked for
  std::filesystem::path losses;      // the folder for a file per layer (losses_file.h)
  bool losses_are_fixed = false;     // nothing may be written into that folder
};

// With a text in `inputs` the folder is made if it is not there, and gets what it lacks; without
// one it is read and never changed. Errors: statistics of another model or text. A run that was
// interrupted goes on where it was.
Result<StatisticsFiles> gathered_statistics(const CompressionInputs& inputs,
                                            const StatisticsRequest& request,
                                            const std::filesystem::path& work,
                                            const MakeMetric& make_metric);

}  // namespace neuronmm::compress
