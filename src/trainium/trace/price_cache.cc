#include "trainium/trace/price_cache.h"

namespace neuronmm::trace {

PriceCache::PriceCache(const Header& header, const AccessTable& accesses,
                       const simulator::DeviceSpec& device)
    : header_(header), accesses_(accesses), device_(device), prices_(header.operations.size()) {}

size_t PriceCache::HashForms::operator()(const std::vector<uint32_t>& forms) const {
  uint64_t hash = forms.size();
  for (const uint32_t form : forms) hash = (hash ^ form) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

Result<const Priced*> PriceCache::find(uint32_t operation, const std::vector<uint32_t>& forms) {
  Prices& prices = prices_[operation];
  if (!prices.last || prices.last->first != forms) {
    auto at = prices.all.find(forms);
    if (at == prices.all.end()) {
      std::vector<const Form*> found;
      for (const uint32_t form : forms) found.push_back(&accesses_.form(form));
      NMM_ASSIGN(const Priced priced, price(header_.operations[operation], found, device_));
      at = prices.all.emplace(forms, priced).first;
    }
    prices.last = &*at;
  }
  return &prices.last->second;
}

}  // namespace neuronmm::trace
