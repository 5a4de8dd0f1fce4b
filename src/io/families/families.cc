#include "io/families/family.h"
#include "io/families/family_table.h"

namespace neuronmm::io {

#define NMM_DECLARE_FAMILY(enumerator, function) const Family& function();
namespace family {
NMM_FAMILIES(NMM_DECLARE_FAMILY)
}  // namespace family
#undef NMM_DECLARE_FAMILY

std::span<const Family* const> families() {
#define NMM_FAMILY_ADDRESS(enumerator, function) &family::function(),
  static const Family* const all[] = {NMM_FAMILIES(NMM_FAMILY_ADDRESS)};
#undef NMM_FAMILY_ADDRESS
  return all;
}

const Family& family_of(Architecture architecture) {
  return *families()[static_cast<size_t>(architecture)];
}

}  // namespace neuronmm::io
