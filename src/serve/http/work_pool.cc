#include "serve/http/work_pool.h"

#include <tuple>
#include <utility>

#include <sys/resource.h>

namespace neuronmm::serve {

WorkPool::WorkPool(const Shape& shape) : shape_(shape) {
  try {
    for (int i = 0; i < shape_.threads; ++i) threads_.emplace_back([this] { run(); });
  } catch (...) {  // a thread cannot be started: those that run must end before they are destroyed
    stop();
    throw;
  }
}

WorkPool::~WorkPool() { stop(); }

void WorkPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkPool::post(const std::string& client, size_t body_bytes, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    const auto entry = clients_.try_emplace(client).first;
    auto& queue = body_bytes < kLargeBytes ? entry->second.small : entry->second.large;
    try {
      queue.push_back({++last_number_, std::move(work)});
    } catch (...) {
      if (entry->second.idle()) clients_.erase(entry);
      throw;
    }
  }
  wake_.notify_one();
}

std::deque<WorkPool::Work>* WorkPool::Client::next(int most_running) {
  if (running >= most_running) return nullptr;
  const bool may_be_large = !large.empty() && large_running == 0;
  // A large body that has waited longer goes first, so that small ones cannot keep it out.
  const bool is_large =
      may_be_large && (small.empty() || large.front().number < small.front().number);
  if (is_large) return &large;
  return small.empty() ? nullptr : &small;
}

WorkPool::Clients::iterator WorkPool::next_client() {
  auto best = clients_.end();
  const auto rank = [](const Client& client) {
    return std::tuple(client.running, client.last_turn);
  };
  for (auto client = clients_.begin(); client != clients_.end(); ++client) {
    if (client->second.next(shape_.threads_of_client) == nullptr) continue;
    if (best == clients_.end() || rank(client->second) < rank(best->second)) best = client;
  }
  return best;
}

void WorkPool::run() {
  // On Linux a thread has a niceness of its own. If the kernel refuses, the work is merely not held
  // back.
  if (shape_.niceness != 0)
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + shape_.niceness);
  std::unique_lock lock(mutex_);
  for (;;) {
    auto client = clients_.end();
    wake_.wait(lock, [&] { return stopping_ || (client = next_client()) != clients_.end(); });
    if (stopping_) return;
    Client& entry = client->second;
    std::deque<Work>* const queue = entry.next(shape_.threads_of_client);
    const bool large = queue == &entry.large;
    std::function<void()> work = std::move(queue->front().run);
    queue->pop_front();
    ++entry.running;
    entry.large_running += large;
    entry.last_turn = ++turns_;
    lock.unlock();
    work();
    work = nullptr;  // what the function holds may take long to destroy
    lock.lock();
    --entry.running;
    entry.large_running -= large;
    if (entry.idle()) clients_.erase(client);
    wake_.notify_one();
  }
}

}  // namespace neuronmm::serve
