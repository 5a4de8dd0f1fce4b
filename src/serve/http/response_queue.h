#pragma once
// Passes an answer from the engine's thread to the thread that owns the sockets. Adding to the
// queue never waits for the reader. If more than the limit is waiting because the client reads too
// slowly, the rest of the answer is lost and the connection ends.

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "serve/responses/event_stream.h"

namespace neuronmm::serve {

// A sink that keeps an answer until a connection takes it. The functions may be called from any
// thread.
class ResponseQueue : public ResponseSink {
 public:
  struct WholeResponse {
    int status = 0;
    std::string body;
  };
  // The additions since the last take().
  struct Content {
    std::optional<WholeResponse> response;
    std::string events;
    bool ended = false;
    // True if more bytes than the limit were waiting. Later events are lost.
    bool overflowed = false;
  };

  // `wake` tells the reader to call take(). It is called for the first addition after a take(), and
  // again when the queue overflows, on the thread that adds. `wake` must be short.
  ResponseQueue(size_t limit_bytes, std::function<void()> wake)
      : limit_bytes_(limit_bytes), wake_(std::move(wake)) {}

  void event(std::string_view text) override;
  void response(int status, std::string body) override;
  void end() override;

  // Returns and removes what was added since the last call.
  Content take();
  // Returns whether more bytes than the limit were waiting.
  bool overflowed();

 private:
  template <typename Change>
  void add(const Change& change);

  const size_t limit_bytes_;
  const std::function<void()> wake_;
  std::mutex mutex_;
  Content content_;
  bool reader_woken_ = false;
};

}  // namespace neuronmm::serve
