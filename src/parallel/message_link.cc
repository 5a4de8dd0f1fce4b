#include "parallel/message_link.h"

#include <algorithm>
#include <cstring>

#include "base/float16.h"
#include "parallel/backoff.h"

namespace neuronmm::parallel {
namespace {

// MPI counts bytes in int, so longer messages are split.
constexpr int64_t kLongestMessage = int64_t{1} << 30;

// Values are sent unchanged, or as bf16.
template <typename T>
T encoded(T value, T /*as*/) {
  return value;
}
bf16 encoded(float value, bf16 /*as*/) { return bf16::from_float(value); }
template <typename T>
T decoded(T value) {
  return value;
}
float decoded(bf16 value) { return value.to_float(); }

template <typename Element, typename T>
std::vector<Element> encode(std::span<const T> values) {
  std::vector<Element> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = encoded(values[i], Element{});
  return result;
}
template <typename Element, typename T>
void decode(const Element* elements, std::span<T> values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = decoded(elements[i]);
}

template <typename Element>
std::span<const std::byte> part(const std::vector<Element>& elements, const Share& share) {
  return std::as_bytes(std::span(elements).subspan(static_cast<size_t>(share.first),
                                                   static_cast<size_t>(share.count)));
}

// Sets `sums` to the sum of theirs[0], theirs[1], ... (theirs[i] are the values of process i),
// added in this order. The bits are the same whichever process adds.
template <typename Element, typename T>
void add_up(const std::vector<std::vector<Element>>& theirs, std::span<T> sums) {
  decode(theirs[0].data(), sums);
  for (size_t i = 1; i < theirs.size(); ++i) {
    for (size_t j = 0; j < sums.size(); ++j) sums[j] += decoded(theirs[i][j]);
  }
}

}  // namespace

void MessageLink::send(std::span<const std::byte> bytes, int to) {
  for (int64_t first = 0; first < std::ssize(bytes); first += kLongestMessage) {
    const int64_t count = std::min(kLongestMessage, std::ssize(bytes) - first);
    const std::lock_guard lock(mpi_lock());
    check_mpi(MPI_Isend(bytes.data() + first, static_cast<int>(count), MPI_BYTE, to, kWorkTag,
                        comm_, &requests_.emplace_back()));
  }
}

void MessageLink::receive(std::span<std::byte> bytes, int from) {
  for (int64_t first = 0; first < std::ssize(bytes); first += kLongestMessage) {
    const int64_t count = std::min(kLongestMessage, std::ssize(bytes) - first);
    const std::lock_guard lock(mpi_lock());
    check_mpi(MPI_Irecv(bytes.data() + first, static_cast<int>(count), MPI_BYTE, from, kWorkTag,
                        comm_, &requests_.emplace_back()));
  }
}

// Waits until everything that was begun is sent and received.
void MessageLink::wait() {
  Backoff backoff;
  for (;;) {
    int done = 0;
    {
      const std::lock_guard lock(mpi_lock());
      check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                            MPI_STATUSES_IGNORE));
    }
    if (done != 0) break;
    backoff.pause();
    if (backoff.is_long()) throw_if_lost_();
  }
  requests_.clear();
}

int64_t MessageLink::sum(std::span<float> values, Wire wire) {
  return wire == Wire::kBF16 ? sum_as<bf16>(values) : sum_as<float>(values);
}
int64_t MessageLink::sum(std::span<double> values) { return sum_as<double>(values); }

// With two processes, each sends all its values and both add. With more, each process receives
// everybody's values of its share, adds them up, and sends the sums to all.
template <typename Element, typename T>
int64_t MessageLink::sum_as(std::span<T> values) {
  const auto count = static_cast<int64_t>(values.size());
  const bool two = processes_ == 2;
  const auto share = [&](int i) { return two ? Share{0, count} : share_of(count, i, processes_); };
  const Share own = share(process_);
  std::vector<Element> elements = encode<Element>(std::span<const T>(values));
  std::vector<std::vector<Element>> theirs(static_cast<size_t>(processes_));
  int64_t sent = 0;
  for (int i = 0; i < processes_; ++i) {
    auto& from = theirs[static_cast<size_t>(i)];
    from.resize(static_cast<size_t>(own.count));
    if (i == process_) {
      std::copy_n(elements.begin() + own.first, own.count, from.begin());
      continue;
    }
    receive(std::as_writable_bytes(std::span(from)), i);
    send(part(elements, share(i)), i);
    sent += share(i).count;
  }
  wait();
  const auto sums = values.subspan(static_cast<size_t>(own.first), static_cast<size_t>(own.count));
  add_up(theirs, sums);
  if (!two) {
    const std::vector<Element> mine = encode<Element>(std::span<const T>(sums));
    std::ranges::copy(mine, elements.begin() + own.first);
    for (int i = 0; i < processes_; ++i) {
      if (i == process_) continue;
      receive(std::as_writable_bytes(std::span(elements).subspan(
                  static_cast<size_t>(share(i).first), static_cast<size_t>(share(i).count))),
              i);
      send(std::as_bytes(std::span(mine)), i);
      sent += own.count;
    }
    wait();
    decode(elements.data(), values);
  }
  return sent * static_cast<int64_t>(sizeof(Element));
}

int64_t MessageLink::all_gather(std::span<const float> mine, std::span<const int64_t> counts,
                                std::span<float> all, Wire wire) {
  return wire == Wire::kBF16 ? all_gather_as<bf16>(mine, counts, all)
                             : all_gather_as<float>(mine, counts, all);
}

template <typename Element>
int64_t MessageLink::all_gather_as(std::span<const float> mine, std::span<const int64_t> counts,
                                   std::span<float> all) {
  std::vector<Element> elements(all.size());
  const std::vector<Element> own = encode<Element>(mine);
  int64_t first = 0, sent = 0;
  for (int i = 0; i < processes_; ++i) {
    const auto theirs = std::span(elements).subspan(
        static_cast<size_t>(first), static_cast<size_t>(counts[static_cast<size_t>(i)]));
    first += std::ssize(theirs);
    if (i == process_) {
      std::ranges::copy(own, theirs.begin());
      continue;
    }
    receive(std::as_writable_bytes(theirs), i);
    send(std::as_bytes(std::span(own)), i);
    sent += std::ssize(own);
  }
  wait();
  decode(elements.data(), all);
  return sent * static_cast<int64_t>(sizeof(Element));
}

// Lengths are exchanged first. Nobody sends long bytes before all know how long they are.
int64_t MessageLink::exchange(std::span<const std::byte> mine, std::span<const int> to,
                              std::span<const int> from, std::vector<Communicator::Bytes>& all) {
  const int64_t size = std::ssize(mine);
  std::vector<int64_t> sizes(static_cast<size_t>(processes_));
  for (const int i : from) {
    if (i != process_)
      receive(std::as_writable_bytes(std::span(&sizes[static_cast<size_t>(i)], 1)), i);
  }
  for (const int i : to) {
    if (i != process_) send(std::as_bytes(std::span(&size, 1)), i);
  }
  wait();
  int64_t sent = 0;
  for (const int i : from) {
    auto& theirs = all[static_cast<size_t>(i)];
    if (i == process_) {
      theirs.assign(mine.begin(), mine.end());
      continue;
    }
    theirs.resize(static_cast<size_t>(sizes[static_cast<size_t>(i)]));
    receive(theirs, i);
  }
  for (const int i : to) {
    if (i == process_) continue;
    send(mine, i);
    sent += size;
  }
  wait();
  return sent;
}

}  // namespace neuronmm::parallel
