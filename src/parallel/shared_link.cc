#include "parallel/shared_link.h"

#include <algorithm>
#include <cstring>

namespace neuronmm::parallel {
namespace {

// Up to this size every process adds up all values, in one round. Above it, each adds up its share
// in a first round and all read the sums in a second one, which reads 2 n instead of p n values.
// Assumed: a round costs about as much as reading this many bytes.
constexpr int64_t kOneRoundBytes = int64_t{64} << 10;

}  // namespace

template <typename T>
int64_t SharedLink::sum(std::span<T> values) {
  const auto slot_values = SharedRounds::kSlotBytes / static_cast<int64_t>(sizeof(T));
  int64_t written = 0;
  for (int64_t first = 0; first < std::ssize(values); first += slot_values) {
    const auto piece =
        values.subspan(static_cast<size_t>(first),
                       static_cast<size_t>(std::min(slot_values, std::ssize(values) - first)));
    const auto bytes = static_cast<int64_t>(piece.size_bytes());
    written += processes_ == 2 || bytes <= kOneRoundBytes ? sum_slots(piece) : sum_shares(piece);
  }
  return written;
}
template int64_t SharedLink::sum(std::span<float> values);
template int64_t SharedLink::sum(std::span<double> values);

// Adds in the order of the processes, so that all get the same bits.
template <typename T>
int64_t SharedLink::sum_slots(std::span<T> values) {
  std::memcpy(rounds_.slot(), values.data(), values.size_bytes());
  rounds_.arrive();
  for (int i = 0; i < processes_; ++i) {
    const auto* const theirs = reinterpret_cast<const T*>(rounds_.await(i));
    if (i == 0) {
      std::memcpy(values.data(), theirs, values.size_bytes());
    } else {
      for (size_t j = 0; j < values.size(); ++j) values[j] += theirs[j];
    }
  }
  rounds_.finish();
  return static_cast<int64_t>(values.size_bytes());
}

template <typename T>
int64_t SharedLink::sum_shares(std::span<T> values) {
  const auto count = static_cast<int64_t>(values.size());
  const Share mine = share_of(count, process_, processes_);
  std::memcpy(rounds_.slot(), values.data(), values.size_bytes());
  rounds_.arrive();
  T* const sums = values.data() + mine.first;
  for (int i = 0; i < processes_; ++i) {
    const auto* const theirs = reinterpret_cast<const T*>(rounds_.await(i)) + mine.first;
    for (int64_t j = 0; j < mine.count; ++j) sums[j] = i == 0 ? theirs[j] : sums[j] + theirs[j];
  }
  rounds_.finish();

  std::memcpy(rounds_.slot(), sums, static_cast<size_t>(mine.count) * sizeof(T));
  rounds_.arrive();
  for (int i = 0; i < processes_; ++i) {
    const Share share = share_of(count, i, processes_);
    const std::byte* const theirs = rounds_.await(i);
    if (i != process_) {
      std::memcpy(values.data() + share.first, theirs,
                  static_cast<size_t>(share.count) * sizeof(T));
    }
  }
  rounds_.finish();
  return static_cast<int64_t>(values.size_bytes()) + mine.count * static_cast<int64_t>(sizeof(T));
}

int64_t SharedLink::all_gather(std::span<const float> mine, std::span<const int64_t> counts,
                               std::span<float> all) {
  constexpr auto kSlotValues = SharedRounds::kSlotBytes / static_cast<int64_t>(sizeof(float));
  const int64_t longest = *std::ranges::max_element(counts);
  const auto piece_of = [&](int64_t count, int64_t first) {
    return static_cast<size_t>(std::clamp<int64_t>(count - first, 0, kSlotValues)) * sizeof(float);
  };
  for (int64_t first = 0; first < longest; first += kSlotValues) {
    const size_t bytes = piece_of(std::ssize(mine), first);
    if (bytes > 0) std::memcpy(rounds_.slot(), mine.data() + first, bytes);
    rounds_.arrive();
    int64_t begin = 0;
    for (int i = 0; i < processes_; ++i) {
      const int64_t count = counts[static_cast<size_t>(i)];
      const std::byte* const theirs = rounds_.await(i);
      const size_t piece = piece_of(count, first);
      if (piece > 0) std::memcpy(all.data() + begin + first, theirs, piece);
      begin += count;
    }
    rounds_.finish();
  }
  return static_cast<int64_t>(mine.size_bytes());
}

// The first round also exchanges the lengths, so that all processes know how many rounds follow.
int64_t SharedLink::exchange(std::span<const std::byte> mine, std::span<const int> wanted,
                             std::vector<Communicator::Bytes>& all) {
  std::vector<int64_t> sizes(static_cast<size_t>(processes_));
  const int64_t size = std::ssize(mine);
  std::memcpy(rounds_.slot(), &size, sizeof(size));
  constexpr int64_t kFirst = SharedRounds::kSlotBytes - static_cast<int64_t>(sizeof(int64_t));
  const auto begin_of = [](int64_t round) {
    return round == 0 ? 0 : kFirst + (round - 1) * SharedRounds::kSlotBytes;
  };
  int64_t longest = 0;
  for (int64_t round = 0; round == 0 || begin_of(round) < longest; ++round) {
    const int64_t begin = begin_of(round), end = begin_of(round + 1);
    const size_t header = round == 0 ? sizeof(size) : 0;
    const auto length = [&](int64_t total) {
      return static_cast<size_t>(std::max<int64_t>(0, std::min(total, end) - begin));
    };
    if (length(size) > 0) std::memcpy(rounds_.slot() + header, mine.data() + begin, length(size));
    rounds_.arrive();
    for (int i = 0; i < processes_ && round == 0; ++i) {
      std::memcpy(&sizes[static_cast<size_t>(i)], rounds_.await(i), sizeof(int64_t));
      longest = std::max(longest, sizes[static_cast<size_t>(i)]);
    }
    for (const int i : wanted) {
      const int64_t theirs = sizes[static_cast<size_t>(i)];
      const std::byte* const from = rounds_.await(i) + header;
      auto& bytes = all[static_cast<size_t>(i)];
      bytes.insert(bytes.end(), from, from + length(theirs));
    }
    rounds_.finish();
  }
  return size;
}

void SharedLink::barrier() {
  rounds_.arrive();
  rounds_.finish();
}

}  // namespace neuronmm::parallel
