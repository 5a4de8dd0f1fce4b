#pragma once
// Submits the requests of one response a few at a time. A client may ask for the embeddings of more
// texts than the engine's queue takes, and the queue is for other clients, too. RunningGeneration
// in serve/http uses this class for embeddings.

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "serve/protocol/prepared_generation.h"

namespace neuronmm::serve {

// The requests of one response. All functions may be called from any thread.
class PacedSubmission : public std::enable_shared_from_this<PacedSubmission> {
 public:
  // The largest number of requests that wait in the engine's queue or run at the same time.
  // Assumed: they fill the steps of a small model, and leave most of the queue to others.
  static constexpr int64_t kMostAtATime = 32;

  // `engine` must outlive the response.
  PacedSubmission(PreparedGeneration generation, EngineInterface& engine, int64_t retry_after_s);

  // Submits the first requests. Each of them submits the next one when it ends. If the engine
  // refuses one of the first requests, the response is closed and the error is returned. If the
  // engine refuses a later one, the response ends with the error. If a request fails, the others
  // are dropped. A full queue is no error while a request runs, because its end makes room.
  ApiResult<bool> start();
  // Ends the requests that run and drops the others.
  void cancel();

 private:
  class PacedListener;
  using Pending = std::pair<Request, std::shared_ptr<Listener>>;

  // Submits requests until enough of them run. Returns the error of a refusal or an exception.
  ApiResult<bool> submit_more();
  std::optional<Pending> take();
  void on_finish(FinishReason reason);

  EngineInterface& engine_;
  const std::shared_ptr<ResponseWriter> writer_;
  const std::string prompt_param_;
  const int64_t retry_after_s_;
  std::mutex mutex_;
  std::deque<Pending> pending_;
  std::vector<RequestId> ids_;
  int64_t running_ = 0;
  bool cancelled_ = false;
};

}  // namespace neuronmm::serve
