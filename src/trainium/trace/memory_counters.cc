#include "trainium/trace/memory_counters.h"

#include <algorithm>

#include "trainium/trace/live_memory.h"

namespace neuronmm::trace {

using tile::Memory;

MemoryCounters::MemoryCounters(const Header& header, const Contents& contents,
                               const simulator::DeviceSpec& device, simulator::Timeline& timeline)
    : header_(header),
      contents_(contents),
      psum_bank_bytes_(static_cast<int64_t>(device.psum_bank_bytes)),
      timeline_(timeline) {
  const char* const kUnit = "bytes per partition";
  sbuf_ = timeline_.add_counter("SBUF", kUnit, device.sbuf_usable_bytes);
  psum_ = timeline_.add_counter("PSUM", kUnit, device.psum_banks * device.psum_bank_bytes);
}

void MemoryCounters::access(uint32_t root, const TensorState* content, double begin, double end) {
  if (!header_.tensors[contents_.instances[root].kind].on_chip()) return;
  const auto at = lives_.find(root);
  if (at != lives_.end() && at->second.content != content) finish(root);
  const auto [life, is_new] = lives_.try_emplace(root, Life{content, begin, end});
  if (is_new) return;
  life->second.begin = std::min(life->second.begin, begin);
  life->second.end = std::max(life->second.end, end);
}

void MemoryCounters::finish(uint32_t root) {
  const auto at = lives_.find(root);
  if (at == lives_.end()) return;
  const TensorKind& kind = header_.tensors[contents_.instances[root].kind];
  timeline_.count(kind.memory == Memory::kPsum ? psum_ : sbuf_, at->second.begin, at->second.end,
                  static_cast<double>(memory_taken(kind, psum_bank_bytes_)));
  lives_.erase(at);
}

}  // namespace neuronmm::trace
