#include "ops/wanted_logits.h"

#include <algorithm>
#include <iterator>

namespace neuronmm::ops {

WantedLogits merged(const WantedLogits& a, const WantedLogits& b) {
  WantedLogits both = {
      .all = a.all || b.all, .best = std::max(a.best, b.best), .log_sum = a.log_sum || b.log_sum};
  std::ranges::set_union(a.named, b.named, std::back_inserter(both.named));
  return both;
}

}  // namespace neuronmm::ops
