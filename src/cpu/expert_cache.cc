#include "cpu/expert_cache.h"

#include <algorithm>
#include <utility>

#include <sys/mman.h>

namespace neuronmm::cpu {
namespace {

// Tells the system something about the memory of a weight, which may be a mapped file. None of the
// advice changes what the memory holds, so it may also be memory of another kind.
void advise(const std::byte* data, int64_t bytes, int advice) {
  // Assumed. On systems with larger pages madvise refuses most addresses, and nothing is advised.
  constexpr uintptr_t kPage = 4096;
  if (data == nullptr || bytes <= 0) return;
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = address / kPage * kPage;
  madvise(reinterpret_cast<void*>(first), address - first + static_cast<size_t>(bytes), advice);
}

void advise(const ops::WeightView& weight, int advice) {
  // Coded values are not where their view points to.
  if (weight.empty() || coded_values(weight) != nullptr) return;
  int64_t others = 0;
  for (const TensorView* const part : {&weight.scales, &weight.groups}) {
    if (part->empty()) continue;
    advise(part->data, part->size_bytes(), advice);
    others += part->size_bytes();
  }
  advise(weight.data, weight.stored_bytes() - others, advice);
}

void advise(const ops::MlpWeight& weight, int advice) {
  for (const ops::LinearWeight* const linear : {&weight.gate, &weight.up, &weight.down}) {
    for (const ops::WeightView* const view : {&linear->w_t, &linear->u_t, &linear->v_t}) {
      advise(*view, advice);
    }
  }
}

}  // namespace

PackedExpert::PackedExpert(const ops::MlpWeight& weight, ForeignWeights foreign, Arena& arena)
    : gate(weight.gate, foreign, &arena),
      up(weight.up, foreign, &arena),
      down(weight.down, foreign, &arena) {
  NMM_CHECK(gate.in_features() == up.in_features() && gate.out_features() == up.out_features() &&
            up.out_features() == down.in_features());
}

int64_t ExpertCache::packed_bytes(const ops::MlpWeight& weight) const {
  int64_t bytes = 0;
  for (const ops::LinearWeight* const linear : {&weight.gate, &weight.up, &weight.down}) {
    for (const ops::WeightView* const view : {&linear->w_t, &linear->u_t, &linear->v_t}) {
      if (!view->empty()) bytes += PackedMatrix::expected_bytes(*view, foreign_);
    }
  }
  return bytes;
}

int64_t ExpertCache::add(const ops::MlpWeight& weight) {
  const int64_t expert = std::ssize(entries_);
  Entry& added = entries_.emplace_back();
  if (limit_ == std::numeric_limits<int64_t>::max()) {
    added.packed = std::make_unique<const PackedExpert>(weight, foreign_, arena_);
    return expert;
  }
  added.weight = weight;
  added.bytes = packed_bytes(weight);
  if (resident_bytes_ + added.bytes <= limit_) pack(expert, true);
  return expert;
}

// A call takes at most half of the limit, so that experts which are used often stay.
size_t ExpertCache::count_of_call(std::span<const int64_t> experts) const {
  size_t count = 0;
  for (int64_t bytes = 0; count < experts.size(); ++count) {
    bytes += entries_[static_cast<size_t>(experts[count])].bytes;
    if (count > 0 && bytes > limit_ / 2) break;
  }
  return count;
}

size_t ExpertCache::load(std::span<const int64_t> experts, bool many_tokens) {
  if (limit_ == std::numeric_limits<int64_t>::max()) return experts.size();
  const std::span<const int64_t> now = experts.first(count_of_call(experts));
  if (calls_++ == 0) read_at_random();
  std::vector<int64_t> missing;
  for (const int64_t expert : now) {
    Entry& wanted = entry(expert);
    wanted.last_call = calls_;
    if (wanted.packed == nullptr) {
      missing.push_back(expert);
    } else if (!many_tokens) {
      order_.splice(order_.end(), order_, wanted.place);
    }
  }
  // The system reads some experts while others are packed. Much more would not stay in memory
  // until it is used. Assumed.
  constexpr size_t kReadAhead = 8;
  for (size_t i = 0; i < missing.size(); ++i) {
    const size_t first = i == 0 ? 0 : i + kReadAhead - 1, end = i + kReadAhead;
    for (size_t next = first; next < std::min(end, missing.size()); ++next) {
      advise(entry(missing[next]).weight, MADV_WILLNEED);
    }
    pack(missing[i], !many_tokens);
    ++loads_;
  }
  return now.size();
}

// From now on the system shall read only what is asked for, not what lies beside it.
void ExpertCache::read_at_random() {
  for (const Entry& one : entries_) advise(one.weight, MADV_RANDOM);
}

// Packs an expert. Afterwards the system may drop the pages of the file before other memory.
void ExpertCache::pack(int64_t expert, bool stays) {
  Entry& packed = entry(expert);
  std::list<int64_t> place = {expert};  // made first, so that nothing throws behind the packing
  make_room(packed.bytes);
  Arena own(packed.bytes);
  packed.packed = std::make_unique<const PackedExpert>(packed.weight, foreign_, own);
  advise(packed.weight, MADV_COLD);
  packed.bytes = own.taken_bytes();
  resident_bytes_ += packed.bytes;
  packed.place = place.begin();
  order_.splice(stays ? order_.end() : order_.begin(), place);
}

void ExpertCache::make_room(int64_t bytes) {
  for (auto next = order_.begin(); next != order_.end() && resident_bytes_ + bytes > limit_;) {
    Entry& oldest = entry(*next);
    if (oldest.last_call == calls_) {
      ++next;
      continue;
    }
    next = order_.erase(next);
    resident_bytes_ -= oldest.bytes;
    oldest.packed.reset();
  }
}

}  // namespace neuronmm::cpu
