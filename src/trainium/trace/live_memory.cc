#include "trainium/trace/live_memory.h"

#include <algorithm>
#include <map>
#include <utility>

namespace neuronmm::trace {

namespace {

constexpr size_t kMostNamed = 12;  // The groups of tensors that a message names.

std::string kibibytes(int64_t bytes) {
  return fmt::format("{:.4g} KiB", static_cast<double>(bytes) / 1024);
}

}  // namespace

int64_t memory_taken(const TensorKind& kind, int64_t psum_bank_bytes) {
  const int64_t bytes = kind.row_bytes();
  if (kind.memory != tile::Memory::kPsum) return bytes;
  return (bytes + psum_bank_bytes - 1) / psum_bank_bytes * psum_bank_bytes;
}

int64_t most_live(const Header& header, const Contents& contents, const std::string& name) {
  std::vector<std::pair<uint32_t, int>> changes;  // An instruction, and one tensor more or less.
  for (uint32_t i = 0; i < contents.instances.size(); ++i) {
    const Instance& instance = contents.instances[i];
    const TensorKind& kind = header.tensors[instance.kind];
    if (instance.root != i || instance.first == Instance::kNever) continue;
    if (!kind.on_chip() || kind.name != name) continue;
    changes.emplace_back(instance.first, 1);
    changes.emplace_back(instance.last + 1, -1);
  }
  std::ranges::sort(changes);
  int64_t live = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, live += change);
  return most;
}

// Sums up the memory that each instruction takes and frees, in order.
LivePeak live_peak(const Header& header, const Contents& contents, tile::Memory memory,
                   int64_t psum_bank_bytes, const std::function<bool(const TensorKind&)>& chosen) {
  const std::vector<Instance>& all = contents.instances;
  const auto counts = [&](uint32_t i) {
    const TensorKind& kind = header.tensors[all[i].kind];
    const bool lives = all[i].root == i && all[i].first != Instance::kNever;
    return lives && kind.memory == memory && (!chosen || chosen(kind));
  };
  std::vector<int64_t> change(static_cast<size_t>(contents.instructions) + 1);
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (!counts(i)) continue;
    const int64_t bytes = memory_taken(header.tensors[all[i].kind], psum_bank_bytes);
    change[all[i].first] += bytes;
    change[all[i].last + 1] -= bytes;
  }
  LivePeak peak;
  int64_t now = 0;
  for (uint32_t at = 0; at < contents.instructions; ++at) {
    now += change[at];
    if (now > peak.bytes) peak.bytes = now, peak.at = at;
  }
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (counts(i) && all[i].first <= peak.at && all[i].last >= peak.at) peak.tensors.push_back(i);
  }
  return peak;
}

std::string describe(const Header& header, const Contents& contents, const LivePeak& peak,
                     int64_t psum_bank_bytes) {
  struct Group {
    int64_t count = 0, bytes = 0;
  };
  std::map<std::pair<std::string, uint32_t>, Group> groups;  // By name and source line.
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
                        header.location(key.second));
  }
  if (order.size() > kMostNamed) text += fmt::format(" and {} more", order.size() - kMostNamed);
  return text;
}

}  // namespace neuronmm::trace
