#include "trainium/kernels/experts.h"

#include <algorithm>
#include <set>

namespace neuronmm::kernels {
namespace {

Status check_choice(const ExpertChoice& choice, int64_t num_experts) {
  if (choice.tokens < 1 || choice.active < 1) {
    return fail("experts: expected at least one token with one expert, found {} x {}",
                choice.tokens, choice.active);
  }
  const int64_t count = choice.tokens * choice.active;
  if (std::ssize(choice.experts) != count || std::ssize(choice.weights) != count) {
    return fail("experts: expected {} x {} numbers and weights, found {} and {}", choice.tokens,
                choice.active, choice.experts.size(), choice.weights.size());
  }
  for (int64_t t = 0; t < choice.tokens; ++t) {
    std::set<int64_t> seen;
    for (int64_t a = 0; a < choice.active; ++a) {
      const int64_t expert = choice.experts[static_cast<size_t>(t * choice.active + a)];
      if (expert < 0 || expert >= num_experts) {
        return fail("experts: token {} chooses expert {}; the mixture has {}, numbered from 0", t,
                    expert, num_experts);
      }
      if (!seen.insert(expert).second) {
        return fail("experts: token {} chooses expert {} twice", t, expert);
      }
    }
  }
  return {};
}

}  // namespace

Result<GroupedExperts> group_by_expert(const ExpertChoice& choice, int64_t num_experts,
                                       int64_t slots) {
  NMM_TRY(check_choice(choice, num_experts));
  const std::set<int64_t> distinct(choice.experts.begin(), choice.experts.end());
  if (slots == 0) slots = std::ssize(distinct);
  if (std::ssize(distinct) > slots) {
    return fail("experts: the tokens choose {} distinct experts; the kernel has slots for {}",
                distinct.size(), slots);
  }
  std::vector<int64_t> order(distinct.begin(), distinct.end());
  order.resize(static_cast<size_t>(slots), order.back());
  GroupedExperts grouped{.experts = Matrix(1, slots),
                         .shares = Matrix(choice.tokens, slots),
                         .distinct = std::ssize(distinct)};
  std::fill_n(grouped.shares.data(), choice.tokens * slots, 0.0f);
  for (int64_t d = 0; d < slots; ++d) {
    grouped.experts.row(0)[d] = static_cast<float>(order[static_cast<size_t>(d)]);
  }
  for (int64_t t = 0; t < choice.tokens; ++t) {
    for (int64_t a = 0; a < choice.active; ++a) {
      const auto at = static_cast<size_t>(t * choice.active + a);
      const auto slot = std::ranges::lower_bound(order, choice.experts[at]) - order.begin();
      grouped.shares.row(t)[slot] = choice.weights[at];
    }
  }
  return grouped;
}

}  // namespace neuronmm::kernels
