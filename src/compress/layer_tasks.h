#pragma once
// One task for every layer of a model, several layers at once, by threads or by processes.

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "compress/data_parallel.h"
#include "compress/inputs.h"

namespace neuronmm::compress {

// The first error ends all tasks, and so does an interrupt between two layers, whose message names
// the folder that keeps `work`. Errors name the model and the layer. An object runs one task.
class LayerTasks {
 public:
  LayerTasks(const CompressionInputs& inputs, const std::filesystem::path& work)
      : inputs_(inputs), work_(work) {}

  // Calls task(layer) for all layers. `label` names the progress bar.
  Status run(const std::string& label, const std::function<Status(int64_t)>& task);

  // Does the same on all processes. `job` returns what is to be done for a layer, or nothing if its
  // result is there already; `run` does a job; `take` keeps its result. Layers come in rounds: the
  // results of a round are kept before the next one begins.
  Status run_with_others(const std::string& label,
                         const std::function<Result<std::optional<LayerJob>>(int64_t)>& job,
                         const RunJob& run,
                         const std::function<Status(int64_t, MessageReader&)>& take);

 private:
  int64_t at_once() const;
  Error stopped() const;
  bool stopping() const;
  void finish(int64_t layer, const Status& status);

  const CompressionInputs& inputs_;
  const std::filesystem::path& work_;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  int64_t done_ = 0;
  std::optional<Error> error_;
};

}  // namespace neuronmm::compress
