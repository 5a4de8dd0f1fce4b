#include "serve/http/response_queue.h"

#include <utility>

namespace neuronmm::serve {

template <typename Change>
void ResponseQueue::add(const Change& change) {
  {
    const std::lock_guard lock(mutex_);
    const bool overflowed = content_.overflowed;
    change();
    if (std::exchange(reader_woken_, true) && overflowed == content_.overflowed) return;
  }
  wake_();
}

void ResponseQueue::event(std::string_view text) {
  add([&] {
    if (content_.events.size() + text.size() > limit_bytes_) content_.overflowed = true;
    if (!content_.overflowed) content_.events += text;
  });
}

void ResponseQueue::response(int status, std::string body) {
  add([&] { content_.response = WholeResponse{status, std::move(body)}; });
}

void ResponseQueue::end() {
  add([&] { content_.ended = true; });
}

bool ResponseQueue::overflowed() {
  const std::lock_guard lock(mutex_);
  return content_.overflowed;
}

ResponseQueue::Content ResponseQueue::take() {
  const std::lock_guard lock(mutex_);
  reader_woken_ = false;
  const bool overflowed = content_.overflowed;
  Content taken = std::exchange(content_, {});
  content_.overflowed = overflowed;
  return taken;
}

}  // namespace neuronmm::serve
