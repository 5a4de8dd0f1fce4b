#include "compress/sizes/allocate.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "compress/factors/factorize.h"

namespace neuronmm::compress {
namespace {

// The number of ranks that are considered for one matrix, at most. It keeps the search below
// seconds for any model and block. The curves are smooth, so finer steps would change little.
// Assumed.
constexpr int64_t kMostMultiples = 32;

// The exponent of the divergence in the sum that is minimized, between 1 (divergences add) and 1/2
// (amplitudes add). Measured, see allocate.h.
constexpr double kExponent = 0.75;

// A lower bound for divergences and energies. A matrix whose truncation loses nothing measurable
// has 0 of both, and 0 has no logarithm.
constexpr double kSmallest = 1e-30;

// D(r) of allocate.h: the measured divergence at the uniform rank, times a power of the relative
// energy. The power is the slope of log D over log E between the two measured ranks.
class DivergenceCurve {
 public:
  DivergenceCurve(const MatrixSensitivity& measured, int64_t uniform, int64_t floor)
      : values_(measured.singular_values),
        divergence_(std::max(measured.uniform_divergence, kSmallest)),
        energy_(energy(uniform)) {
    const double span = std::log(energy(floor) / energy_);
    const double rise = std::log(std::max(measured.floor_divergence, kSmallest) / divergence_);
    // A curve that falls while the lost energy grows is noise of the measurement and counts as
    // flat. If both ranks lose the same energy, no slope can be measured, and the divergence is
    // assumed to be proportional to the energy.
    power_ = span > 0 ? std::max(rise / span, 0.0) : 1.0;
  }
  double operator()(int64_t rank) const {
    return divergence_ * std::pow(energy(rank) / energy_, power_);
  }

 private:
  double energy(int64_t rank) const { return std::max(energy_lost(values_, rank), kSmallest); }

  const std::vector<double>& values_;
  double divergence_, energy_, power_;
};

// A choice from each of the first lists, with its parameters and its loss. The search goes through
// the lists one by one and extends such sums. A sum is dropped if another one has no more
// parameters and no more loss: whatever is chosen from the remaining lists, the other sum ends at
// least as well.
struct PartialSum {
  int64_t parameters = 0;
  double loss = 0.0;
  // The index of the sum without the last list's choice, and that choice.
  size_t before = 0, choice = 0;
};

// Returns the sums that no other sum dominates, sorted by parameters.
std::vector<PartialSum> without_dominated(std::vector<PartialSum> sums) {
  std::sort(sums.begin(), sums.end(), [](const PartialSum& a, const PartialSum& b) {
    return std::tie(a.parameters, a.loss, a.before, a.choice) <
           std::tie(b.parameters, b.loss, b.before, b.choice);
  });
  // The sums are sorted by parameters, so a sum stays only if it has less loss than every cheaper
  // one.
  std::vector<PartialSum> kept;
  for (const PartialSum& sum : sums) {
    if (kept.empty() || sum.loss < kept.back().loss) kept.push_back(sum);
  }
  return kept;
}

}  // namespace

// The header has the source of the fraction three quarters.
int64_t floor_rank(int64_t uniform_rank, int64_t block) {
  return std::max(3 * uniform_rank / (4 * block), int64_t{1}) * block;
}

Status check_allocation(const Plan& uniform, int64_t block, const std::string& source) {
  for (const MatrixPlan& matrix : uniform.matrices) {
    if (matrix.rank != block) continue;
    return fail(
        "{}: allocate measured has nothing to move: at this ratio the uniform rank of layer {} "
        "{} is {}, one block, and no matrix may fall below that; use a smaller ratio, a block of "
        "at most {}, or allocate uniform",
        source, matrix.layer, matrix_name(matrix.matrix), matrix.rank,
        std::max(block / 2, int64_t{1}));
  }
  return {};
}

std::vector<RankChoice> rank_choices(const MatrixPlan& uniform, int64_t block,
                                     const MatrixSensitivity& sensitivity) {
  const int64_t k = uniform.in_features, n = uniform.out_features;
  const int64_t floor = floor_rank(uniform.rank, block);
  // The largest multiple of the block with r·(K + N) < K·N, which means that it saves parameters.
  const int64_t largest = (k * n - 1) / (k + n) / block * block;
  const int64_t multiples = (largest - floor) / block + 1;
  const int64_t step = (multiples + kMostMultiples - 1) / kMostMultiples * block;
  const DivergenceCurve divergence(sensitivity, uniform.rank, floor);
  std::vector<RankChoice> choices;
  // Steps start at the uniform rank, which is therefore always among the choices.
  for (int64_t r = uniform.rank - (uniform.rank - floor) / step * step; r <= largest; r += step) {
    choices.push_back({r, r * (k + n), std::pow(divergence(r), kExponent)});
  }
  choices.push_back({0, k * n, 0.0});
  return choices;
}

// Dynamic programming over the lists. It is exact, because dropped sums cannot be part of the best
// choice. `least_of_rest` is the least that the remaining lists can cost; a sum that leaves less
// than that in the budget cannot be completed.
std::vector<size_t> best_choices(const std::vector<std::vector<RankChoice>>& lists,
                                 int64_t budget) {
  int64_t least_of_rest = 0;
  for (const auto& list : lists) least_of_rest += list.front().parameters;
  NMM_CHECK(least_of_rest <= budget);
  std::vector<std::vector<PartialSum>> sums = {{PartialSum()}};
  for (const auto& list : lists) {
    least_of_rest -= list.front().parameters;
    std::vector<PartialSum> longer;
    for (size_t before = 0; before < sums.back().size(); ++before) {
      const PartialSum& sum = sums.back()[before];
      for (size_t choice = 0; choice < list.size(); ++choice) {
        const int64_t parameters = sum.parameters + list[choice].parameters;
        // Choices are sorted by parameters, so all later ones cost even more.
        if (parameters + least_of_rest > budget) break;
        longer.push_back({parameters, sum.loss + list[choice].loss, before, choice});
      }
    }
    sums.push_back(without_dominated(std::move(longer)));
  }
  // Goes back from the best sum; each sum remembers the one that it extends.
  std::vector<size_t> choices(lists.size());
  size_t best = sums.back().size() - 1;  // the most parameters and therefore the least loss
  for (size_t i = lists.size(); i-- > 0;) {
    choices[i] = sums[i + 1][best].choice;
    best = sums[i + 1][best].before;
  }
  return choices;
}

// The budget is the number of parameters of uniform ranks.
Allocation allocate_ranks(const Plan& uniform, int64_t block,
                          const std::vector<MatrixSensitivity>& sensitivities) {
  Allocation result;
  std::vector<std::vector<RankChoice>> lists;
  for (const MatrixPlan& matrix : uniform.matrices) {
    if (matrix.rank == 0) continue;
    lists.push_back(rank_choices(matrix, block, sensitivities.at(lists.size())));
    result.uniform_parameters += matrix.rank * (matrix.in_features + matrix.out_features);
  }
  const std::vector<size_t> best = best_choices(lists, result.uniform_parameters);
  size_t next = 0;
  for (const MatrixPlan& matrix : uniform.matrices) {
    if (matrix.rank == 0) {
      result.ranks.push_back(0);
      continue;
    }
    const RankChoice& choice = lists[next][best[next]];
    ++next;
    result.ranks.push_back(choice.rank);
    result.parameters += choice.parameters;
  }
  return result;
}

}  // namespace neuronmm::compress
