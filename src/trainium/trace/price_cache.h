#pragma once
// Caches the prices of instructions. Every combination of an operation and its operands' forms is
// priced once (pricing.h). The simulation (source.h) and the scheduler (list_schedule.h) have a
// cache each.

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trainium/trace/accesses.h"
#include "trainium/trace/pricing.h"

namespace neuronmm::trace {

class PriceCache {
 public:
  // All three arguments must outlive the cache.
  PriceCache(const Header& header, const AccessTable& accesses,
             const simulator::DeviceSpec& device);

  // Returns the price of an operation, which stays valid as long as the cache. `forms` are those of
  // the operands, in order (Access::form). Fails if the operands are not what the operation takes.
  Result<const Priced*> find(uint32_t operation, const std::vector<uint32_t>& forms);

 private:
  struct HashForms {
    size_t operator()(const std::vector<uint32_t>& forms) const;
  };
  struct Prices {  // The prices of one operation, by the forms of its operands.
    std::unordered_map<std::vector<uint32_t>, Priced, HashForms> all;
    const std::pair<const std::vector<uint32_t>, Priced>* last = nullptr;
  };

  const Header& header_;
  const AccessTable& accesses_;
  const simulator::DeviceSpec& device_;
  std::vector<Prices> prices_;  // By operation.
};

}  // namespace neuronmm::trace
