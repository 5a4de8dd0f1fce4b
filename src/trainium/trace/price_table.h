#pragma once
// What instructions cost, each kind of them priced once: an operation on operands of certain forms.

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trainium/trace/accesses.h"
#include "trainium/trace/pricing.h"

namespace neuronmm::trace {

class PriceTable {
 public:
  // All three must outlive it.
  PriceTable(const Header& header, const AccessTable& accesses,
             const simulator::DeviceSpec& device);

  // `forms`: of the operands, in order (Access::form). What it returns holds as long as the table.
  Result<const Priced*> find(uint32_t operation, const std::vector<uint32_t>& forms);

 private:
  struct HashForms {
    size_t operator()(const std::vector<uint32_t>& forms) const;
  };
  struct Prices {  // of one operation, by the forms of its operands
    std::unordered_map<std::vector<uint32_t>, Priced, HashForms> all;
    const std::pair<const std::vector<uint32_t>, Priced>* last = nullptr;
  };

  const Header& header_;
  const AccessTable& accesses_;
  const simulator::DeviceSpec& device_;
  std::vector<Prices> prices_;  // by operation
};

}  // namespace neuronmm::trace
