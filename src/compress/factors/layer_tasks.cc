#include "compress/factors/layer_tasks.h"

#include <algorithm>
#include <vector>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/threads.h"
#include "compress/factors/neuron_order.h"

namespace neuronmm::compress {
namespace {

// Memory that layers processed in parallel may use together, in bytes. Assumed.
constexpr int64_t kBytesAtOnce = int64_t{2} << 30;

// Returns how many layers to process at the same time. If memory allows a layer for more than half
// of the threads, each layer runs on one thread, because small matrices gain little from several
// threads. Otherwise layers run one after the other, each on all threads.
int64_t layers_at_once(const io::ModelConfig& config) {
  // The memory of a layer in fp64: some matrices as large as the neurons' Gram matrix
  // (neuron_order.h), and the weights with products of the same size.
  const int64_t inner = config.intermediate_size, squares = inner > kMostOneByOne ? 3 : 6;
  const int64_t bytes = 8 * (squares * inner * inner + 6 * inner * config.hidden_size);
  const int64_t fit = kBytesAtOnce / std::max<int64_t>(bytes, 1);
  return 2 * fit > num_threads() ? std::min<int64_t>(fit, num_threads()) : 1;
}

}  // namespace

// Finds the layers that are left to do, and starts the progress with those that are saved.
void LayerTasks::find_saved(const std::string& label, const std::function<bool(int64_t)>& saved) {
  const int64_t layers = inputs_.config.num_hidden_layers;
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (!saved(layer)) to_do_.push_back(layer);
  }
  done_ = layers - std::ssize(to_do_);
  if (done_ > 0 && done_ < layers) {
    inputs_.progress.print(label + ": " + found_text(done_, layers, "layer", "layers"));
  }
  inputs_.progress.start(label, layers, done_);
}

Status LayerTasks::run(const std::string& label, const std::function<bool(int64_t)>& saved,
                       const std::function<Status(int64_t)>& task) {
  find_saved(label, saved);
  const int64_t at_once = this->at_once();
  const auto work = [&](int64_t) {
    for (size_t i; (i = next_.fetch_add(1)) < to_do_.size();) {
      if (stopping()) return;
      finish(to_do_[i], task(to_do_[i]));
      inputs_.checkpoint.release_pages();
    }
  };
  if (at_once == 1) {
    work(0);
  } else {
    run_on_threads(at_once, work);
  }
  inputs_.progress.finish();
  if (error_) return *std::move(error_);
  return interrupted() ? Status(stopped()) : Status();
}

Status LayerTasks::run_with_helpers(const std::string& label,
                                    const std::function<bool(int64_t)>& saved,
                                    const std::function<Result<LayerJob>(int64_t)>& job,
                                    const RunJob& run,
                                    const std::function<Status(int64_t, MessageReader&)>& take) {
  find_saved(label, saved);
  const auto round = static_cast<size_t>(at_once() * inputs_.helpers->processes());
  std::vector<LayerJob> jobs;
  const auto take_one = [&](int64_t layer, MessageReader& result) {
    finish(layer, take(layer, result));
    return error_ ? Status(*error_) : Status();
  };
  for (const int64_t layer : to_do_) {
    NMM_ASSIGN(LayerJob next, job(layer));
    jobs.push_back(std::move(next));
    if (jobs.size() < round && layer != to_do_.back()) continue;
    if (interrupted()) return stopped();
    NMM_TRY(inputs_.helpers->run_jobs({inputs_.checkpoint, inputs_.config}, run, jobs, at_once(),
                                      take_one));
    jobs.clear();
    inputs_.checkpoint.release_pages();
  }
  inputs_.progress.finish();
  return {};
}

int64_t LayerTasks::at_once() const {
  return std::min(inputs_.config.num_hidden_layers, layers_at_once(inputs_.config));
}

Error LayerTasks::stopped() const {
  return interrupted_error(
      fmt::format("{} of {} layers are done", done_, inputs_.config.num_hidden_layers));
}

bool LayerTasks::stopping() const { return stopping_ || interrupted(); }

void LayerTasks::finish(int64_t layer, const Status& status) {
  const std::lock_guard lock(mutex_);
  if (status.ok()) return inputs_.progress.update(++done_, fmt::format("layer {}", layer));
  stopping_ = true;
  if (error_) return;
  error_ = status.error().kind == Error::Kind::kInterrupted
               ? stopped()
               : fail("{}: layer {}: {}", inputs_.checkpoint.folder().string(), layer,
                      status.error().message);
}

}  // namespace neuronmm::compress
