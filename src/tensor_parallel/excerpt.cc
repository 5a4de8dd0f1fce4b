#include "tensor_parallel/excerpt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/result.h"

namespace neuronmm::tensor_parallel {
namespace {

using Bytes = parallel::Communicator::Bytes;

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

struct Entry {
  int32_t id;
  float logit;
};
bool is_better(const Entry& a, const Entry& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

template <typename T>
void append(Bytes& bytes, const T& value) {
  const auto* const first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(T));
}

// Returns the first `count` logits in the order of is_better. A heap keeps the worst of them on
// top. Blocks without a larger value are skipped: a later id is better only if its value is larger.
std::vector<Entry> best_of(std::span<const float> logits, int64_t first_id, int64_t count) {
  constexpr size_t kBlock = 512;
  std::vector<Entry> best;
  if (count <= 0) return best;
  const auto has_room = [&] { return std::ssize(best) < count; };
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    if (!has_room() && ops::largest_of(block) <= best.front().logit) continue;
    for (size_t i = 0; i < block.size(); ++i) {
      if (!(block[i] > (has_room() ? kImpossible : best.front().logit))) continue;
      if (!has_room()) {
        std::ranges::pop_heap(best, is_better);
        best.pop_back();
      }
      best.push_back({static_cast<int32_t>(first_id + static_cast<int64_t>(begin + i)), block[i]});
      std::ranges::push_heap(best, is_better);
    }
  }
  return best;
}

std::vector<Entry> entries_of(std::span<const float> logits, const Share& columns,
                              const ops::WantedLogits& wanted) {
  const auto first = std::ranges::lower_bound(wanted.named, columns.first);
  const auto end = std::ranges::lower_bound(wanted.named, columns.end());
  const auto at = [&](int32_t id) { return static_cast<size_t>(id - columns.first); };
  std::vector<Entry> entries;
  std::vector<float> others;
  for (auto id = first; id != end; ++id) entries.push_back({*id, logits[at(*id)]});
  if (!entries.empty() && wanted.num_best > 0) {
    others.assign(logits.begin(), logits.end());
    for (const Entry& named : entries) others[at(named.id)] = kImpossible;
  }
  const auto best = best_of(others.empty() ? logits : others, columns.first, wanted.num_best);
  entries.insert(entries.end(), best.begin(), best.end());
  return entries;
}

}  // namespace

Share vocabulary_share(int64_t width, int process, int processes) {
  return share_in_units(width, ops::log_sum_block(width), process, processes);
}

Bytes excerpt(std::span<const float> logits, const Share& columns, const ops::WantedLogits& wanted,
              int64_t block) {
  if (wanted.all) {
    const auto bytes = std::as_bytes(logits);
    return {bytes.begin(), bytes.end()};
  }
  std::vector<Entry> entries = entries_of(logits, columns, wanted);
  if (!ops::all_finite(logits)) {
    const auto first = std::ranges::find_if_not(logits, [](float x) { return std::isfinite(x); });
    entries.push_back({static_cast<int32_t>(columns.first + (first - logits.begin())), *first});
  }
  Bytes bytes;
  append(bytes, static_cast<int32_t>(entries.size()));
  for (const Entry& entry : entries) append(bytes, entry);
  if (!wanted.log_sum) return bytes;
  for (const ops::ExponentialSum& sum : ops::exponential_sums(logits, block)) {
    append(bytes, sum.largest);
    append(bytes, sum.sum);
  }
  return bytes;
}

template <typename T>
T ExcerptReader::next() {
  NMM_CHECK(bytes_.size() >= sizeof(T));
  T value;
  std::memcpy(&value, bytes_.data(), sizeof(T));
  bytes_ = bytes_.subspan(sizeof(T));
  return value;
}

void ExcerptReader::read(const Share& columns, const ops::WantedLogits& wanted, int64_t block,
                         std::span<float> row, std::vector<ops::ExponentialSum>& sums) {
  if (wanted.all) {
    const size_t length = static_cast<size_t>(columns.count) * sizeof(float);
    NMM_CHECK(bytes_.size() >= length);
    if (length > 0) std::memcpy(row.data() + columns.first, bytes_.data(), length);
    bytes_ = bytes_.subspan(length);
    return;
  }
  const auto count = next<int32_t>();
  for (int32_t i = 0; i < count; ++i) {
    const auto entry = next<Entry>();
    row[static_cast<size_t>(entry.id)] = entry.logit;
  }
  if (!wanted.log_sum) return;
  for (int64_t first = 0; first < columns.count; first += block) {
    const auto largest = next<float>();
    sums.push_back({largest, next<double>()});
  }
}

}  // namespace neuronmm::tensor_parallel
