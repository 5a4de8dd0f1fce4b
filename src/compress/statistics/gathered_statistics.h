#pragma once
// Provides the statistics, the output metric and the predicted losses that a command works with.
// The command either reads them from a folder of saved statistics or gathers them from the
// calibration text. `compress`, `quantize` and `fit` call gathered_statistics().

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "compress/statistics/inputs.h"
#include "compress/statistics/mlp_statistics.h"
#include "compress/statistics/saved_statistics.h"

namespace neuronmm::compress {

// The statistics that a command asks for.
struct StatisticsRequest {
  // The folder that keeps the statistics for other runs (saved_statistics.h). If the path is empty,
  // the statistics stay in the work folder.
  std::filesystem::path folder;
  // The contents of `folder` if the caller has opened it already; otherwise null.
  const SavedStatistics* saved = nullptr;
  // "whitened" or "two-sided". Only "two-sided" has a metric.
  std::string_view method;
  // The statistics that the caller needs. A folder that is made here always has all statistics.
  Gathered what = Gathered::kMlps;
  // Whether unfinished statistics of another text or model are deleted.
  bool force = false;
};

// The files that gathered_statistics() provides.
struct StatisticsFiles {
  // The folder with a file per layer (mlp_statistics.h).
  std::filesystem::path statistics;
  // The file with the metric. Empty if the method has no metric.
  std::filesystem::path metric;
  // The folder for a file of predicted losses per layer (losses_file.h).
  std::filesystem::path losses;
  // Whether nothing may be written into the folder `losses`.
  bool losses_are_fixed = false;
};

// Gathers the statistics, or finds them in the folder of the request. If `inputs` has a text, the
// folder is made if it is missing, and files that it lacks are added. Without a text the folder is
// only read. Fails if the statistics belong to another model or text. A run that was interrupted
// continues where it stopped.
Result<StatisticsFiles> gathered_statistics(const CompressionInputs& inputs,
                                            const StatisticsRequest& request,
                                            const std::filesystem::path& work);

}  // namespace neuronmm::compress
