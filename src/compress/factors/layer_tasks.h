#pragma once
// Runs one task for every layer of a model, on several threads or processes. Narrowing by
// statistics (narrow_layers.h) and the predicted losses (sizes/predicted_curves.h) use it.

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/statistics/data_parallel.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// Runs a task for all layers. The first error ends all tasks and is returned with the names of the
// model and the layer. An interrupt ends them between two layers, or within a layer if its task
// returns interrupted_error(). It is returned as an error that says how many layers are done. An
// object runs one task only.
class LayerTasks {
 public:
  explicit LayerTasks(const CompressionInputs& inputs) : inputs_(inputs) {}

  // Calls task(layer) for all layers whose result is not saved yet. saved(layer) says which are; it
  // is called once for every layer, before any task. `label` is the label of the progress bar.
  Status run(const std::string& label, const std::function<bool(int64_t)>& saved,
             const std::function<Status(int64_t)>& task);

  // Does the same on all processes. `job` returns the job for a layer. `run` runs a job, and `take`
  // saves its result. The layers are processed in rounds, and the results of a round are saved
  // before the next round begins.
  Status run_with_helpers(const std::string& label, const std::function<bool(int64_t)>& saved,
                          const std::function<Result<LayerJob>(int64_t)>& job, const RunJob& run,
                          const std::function<Status(int64_t, MessageReader&)>& take);

 private:
  void find_saved(const std::string& label, const std::function<bool(int64_t)>& saved);
  int64_t at_once() const;
  Error stopped() const;
  bool stopping() const;
  void finish(int64_t layer, const Status& status);

  const CompressionInputs& inputs_;
  std::vector<int64_t> to_do_;  // the layers whose result is not saved
  std::atomic<size_t> next_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  int64_t done_ = 0;
  std::optional<Error> error_;
};

}  // namespace neuronmm::compress
