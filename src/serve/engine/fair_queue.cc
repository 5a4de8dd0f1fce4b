#include "serve/engine/fair_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "serve/engine/job.h"

namespace neuronmm::serve {
namespace {

SequenceKey key_of(const Sequence& sequence) {
  return {sequence.job.priority, sequence.job.id, sequence.choice};
}

int64_t positions(const ClientShare& client) {
  int64_t sum = 0;
  for (const auto& [key, sequence] : client.running) sum += sequence->memory->length();
  return sum;
}

// Moves a sequence's entry, which cannot fail. If `from` has none, a new one is made in `to`.
void move_entry(Sequence& sequence, SequencesByKey& from, SequencesByKey& to) {
  const SequenceKey key = key_of(sequence);
  if (auto entry = from.extract(key)) {
    to.insert(std::move(entry));
  } else {
    to.emplace(key, &sequence);
  }
}

}  // namespace

void FairQueue::enter(Job& job) {
  const auto [entry, is_new] = clients_.try_emplace(job.client);
  job.share = &entry->second;
  if (is_new && clients_.size() > 1) {
    int64_t least = INT64_MAX;
    for (const auto& [name, client] : clients_) {
      if (&client != job.share) least = std::min(least, client.served_tokens);
    }
    job.share->served_tokens = least;
  }
  ++job.share->requests;
}

void FairQueue::leave(const Job& job) {
  if (--job.share->requests == 0) clients_.erase(job.client);
}

void FairQueue::charge(Job& job, int64_t tokens) { job.share->served_tokens += tokens; }

void FairQueue::wait(Sequence& sequence) {
  ClientShare& share = *sequence.job.share;
  move_entry(sequence, share.running, share.waiting);
  running_.erase(key_of(sequence));
}

void FairQueue::run(Sequence& sequence) {
  ClientShare& share = *sequence.job.share;
  running_.emplace(key_of(sequence), &sequence);
  try {
    move_entry(sequence, share.waiting, share.running);
  } catch (...) {
    running_.erase(key_of(sequence));
    throw;
  }
}

void FairQueue::remove(Sequence& sequence) {
  const SequenceKey key = key_of(sequence);
  sequence.job.share->waiting.erase(key);
  sequence.job.share->running.erase(key);
  running_.erase(key);
}

Sequence* FairQueue::next() const {
  Sequence* next = nullptr;
  const auto rank = [](const Sequence& sequence) {
    const ClientShare& client = *sequence.job.share;
    return std::tuple(sequence.job.priority, client.served_tokens, std::ssize(client.running),
                      sequence.job.id);
  };
  for (const auto& [name, client] : clients_) {
    if (client.waiting.empty()) continue;
    Sequence* const first = client.waiting.begin()->second;
    if (next == nullptr || rank(*first) < rank(*next)) next = first;
  }
  return next;
}

Sequence* FairQueue::find_surplus(const Sequence& wanting, Shortage shortage) const {
  const bool slots = shortage == Shortage::kSlots;
  const auto held = [&](const ClientShare& client) {
    return slots ? std::ssize(client.running) : positions(client);
  };
  const ClientShare* largest = nullptr;
  for (const auto& [name, client] : clients_) {
    if (largest == nullptr || held(client) > held(*largest)) largest = &client;
  }
  const int64_t wanted = slots ? 1 : std::ssize(wanting.continuation.tokens());
  if (largest == nullptr || held(*largest) <= held(*wanting.job.share) + wanted) return nullptr;
  const auto& [key, newest] = *largest->running.rbegin();
  return key.priority < wanting.job.priority ? nullptr : newest;
}

}  // namespace neuronmm::serve
