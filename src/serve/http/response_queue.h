#pragma once
// Where the engine's thread leaves an answer for the thread that owns the sockets. Putting
// something in never waits for anybody; a reader that is slower than the limit loses the answer.

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "serve/protocol/event_stream.h"

namespace neuronmm::serve {

class ResponseQueue : public ResponseSink {
 public:
  struct WholeResponse {
    int status = 0;
    std::string body;
  };
  struct Content {
    std::optional<WholeResponse> response;
    std::string events;
    bool ended = false;
    bool overflowed = false;  // more than the limit was waiting; what came after it is lost
  };

  // `wake` is called from whichever thread puts the first thing in after a take(), and again at the
  // overflow; it must be short.
  ResponseQueue(size_t limit_bytes, std::function<void()> wake)
      : limit_bytes_(limit_bytes), wake_(std::move(wake)) {}

  void event(std::string_view text) override;
  void response(int status, std::string body) override;
  void end() override;

  Content take();  // what came since the last one
  bool overflowed();

 private:
  template <typename Change>
  void put(const Change& change);

  const size_t limit_bytes_;
  const std::function<void()> wake_;
  std::mutex mutex_;
  Content content_;
  bool told_ = false;
};

}  // namespace neuronmm::serve
