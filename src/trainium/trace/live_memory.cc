#include "trainium/trace/live_memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

namespace neuronmm::trace {

namespace {

constexpr size_t kMostNamed = 12;

std::string kibibytes(int64_t bytes) {
  return fmt::format("{:.4g} KiB", static_cast<double>(bytes) / 1024);
}

}  // namespace

int64_t memory_taken(const TensorKind& kind, int64_t psum_bank_bytes) {
  const int64_t bytes = kind.row_bytes();
  if (kind.memory != tile::Memory::kPsum) return bytes;
  return (bytes + psum_bank_bytes - 1) / psum_bank_bytes * psum_bank_bytes;
}

// Tensors come by their first access and go, from a heap, by their last.
LivePeak live_peak(const Header& header, const Contents& contents, tile::Memory memory,
                   int64_t psum_bank_bytes) {
  const std::vector<Instance>& all = contents.instances;
  std::vector<uint32_t> coming;
  for (uint32_t i = 0; i < all.size(); ++i) {
    const bool lives = all[i].root == i && all[i].first != Instance::kNever;
    if (lives && header.tensors[all[i].kind].memory == memory) coming.push_back(i);
  }
  std::sort(coming.begin(), coming.end(),
            [&](uint32_t a, uint32_t b) { return all[a].first < all[b].first; });
  const auto taken = [&](uint32_t i) {
    return memory_taken(header.tensors[all[i].kind], psum_bank_bytes);
  };
  using Going = std::pair<uint32_t, uint32_t>;  // last access, instance
  std::priority_queue<Going, std::vector<Going>, std::greater<>> going;
  LivePeak peak;
  int64_t now = 0;
  for (const uint32_t i : coming) {
    for (; !going.empty() && going.top().first < all[i].first; going.pop()) {
      now -= taken(going.top().second);
    }
    now += taken(i);
    going.emplace(all[i].last, i);
    if (now > peak.bytes) peak.bytes = now, peak.at = all[i].first;
  }
  for (const uint32_t i : coming) {
    if (all[i].first <= peak.at && all[i].last >= peak.at) peak.tensors.push_back(i);
  }
  return peak;
}

std::string describe(const Header& header, const Contents& contents, const LivePeak& peak,
                     int64_t psum_bank_bytes) {
  struct Group {
    int64_t count = 0, bytes = 0;
  };
  std::map<std::pair<std::string, uint32_t>, Group> groups;  // by name and source line
  for (const uint32_t i : peak.tensors) {
    const Instance& instance = contents.instances[i];
    const TensorKind& kind = header.tensors[instance.kind];
    Group& group = groups[{kind.name, instance.source}];
    ++group.count;
    group.bytes += memory_taken(kind, psum_bank_bytes);
  }
  std::vector<decltype(groups)::value_type*> order;
  for (auto& group : groups) order.push_back(&group);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.bytes != b->second.bytes ? a->second.bytes > b->second.bytes
                                              : a->first < b->first;
  });
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), kMostNamed); ++i) {
    const auto& [key, group] = *order[i];
    text += fmt::format("{}{} {} ({}{})", i > 0 ? ", " : "", key.first, kibibytes(group.bytes),
                        group.count > 1 ? fmt::format("{} tensors, ", group.count) : "",
                        header.place(key.second));
  }
  if (order.size() > kMostNamed) text += fmt::format(" and {} more", order.size() - kMostNamed);
  return text;
}

}  // namespace neuronmm::trace
