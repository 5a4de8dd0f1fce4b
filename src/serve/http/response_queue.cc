#include "serve/http/response_queue.h"

#include <utility>

namespace neuronmm::serve {

template <typename Change>
void ResponseQueue::put(const Change& change) {
  {
    const std::lock_guard lock(mutex_);
    const bool overflowed = content_.overflowed;
    change();
    if (std::exchange(told_, true) && overflowed == content_.overflowed) return;
  }
  wake_();
}

void ResponseQueue::event(std::string_view text) {
  put([&] {
    if (content_.events.size() + text.size() > limit_bytes_) content_.overflowed = true;
    if (!content_.overflowed) content_.events += text;
  });
}

void ResponseQueue::response(int status, std::string body) {
  put([&] { content_.response = WholeResponse{status, std::move(body)}; });
}

void ResponseQueue::end() {
  put([&] { content_.ended = true; });
}

bool ResponseQueue::overflowed() {
  const std::lock_guard lock(mutex_);
  return content_.overflowed;
}

ResponseQueue::Content ResponseQueue::take() {
  const std::lock_guard lock(mutex_);
  told_ = false;
  const bool overflowed = content_.overflowed;
  Content taken = std::exchange(content_, {});
  content_.overflowed = overflowed;
  return taken;
}

}  // namespace neuronmm::serve
