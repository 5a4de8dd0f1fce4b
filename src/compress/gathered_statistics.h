#pragma once
// Statistics, metric and losses of a run: read where they are saved, made where they are not.

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
  const SavedStatistics* saved = nullptr;  // to be read and not to be changed; null: none
  std::filesystem::path save;              // the folder to save them in; empty: the work folder
  std::string_view method;                 // "whitened" or "two-sided", which has a metric
  Gathered what = Gathered::kMlps;         // at least; what is saved has all
};

struct StatisticsFiles {
  std::filesystem::path statistics;  // the folder with a file per layer (mlp_statistics.h)
  std::filesystem::path metric;      // the file; empty: none is asked for
  std::filesystem::path losses;      // the folder with a file per layer (losses_file.h), or for it
};

// A folder at `save` that a run with the same model and texts made is taken as it is, and gets what
// it lacks. Without a text in `inputs` all must be saved. Interrupted: goes on where it was.
Result<StatisticsFiles> gathered_statistics(const CompressionInputs& inputs,
                                            const StatisticsRequest& request,
                                            const std::filesystem::path& work,
                                            const MakeMetric& make_metric);

}  // namespace neuronmm::compress
