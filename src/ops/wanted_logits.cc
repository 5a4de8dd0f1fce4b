#include "ops/wanted_logits.h"

#include <algorithm>
#include <iterator>

namespace neuronmm::ops {

WantedLogits union_of(const WantedLogits& a, const WantedLogits& b) {
  WantedLogits both = {.all = a.all || b.all,
                       .num_best = std::max(a.num_best, b.num_best),
                       .log_sum = a.log_sum || b.log_sum};
  std::ranges::set_union(a.named, b.named, std::back_inserter(both.named));
  return both;
}

}  // namespace neuronmm::ops
