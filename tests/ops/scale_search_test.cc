// Tests that the search for scales gives the same result on every machine and at every magnitude.

#include "ops/scale_search.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "instruction_set.h"

namespace neuronmm::ops {
namespace {

// Returns rows of every length up to kQuantGroup: normal and one-sided values of ordinary, huge and
// tiny size. Every third row has an outlier.
std::vector<std::vector<float>> random_rows(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> rows;
  for (int64_t count = 1; count <= kQuantGroup; ++count) {
    for (const float mean : {0.0f, 1.5f, -1.5f}) {
      for (const float size : {0.02f, 3e4f, 1e-38f}) {
        std::vector<float> row(static_cast<size_t>(count));
        for (float& value : row) value = size * (normal(random) + mean);
        if (count % 3 == 0) row[static_cast<size_t>(count / 2)] *= 20;
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

// Returns everything that is stored of a row in 4 and in 6 bits: scales, groups and codes.
std::vector<uint32_t> stored(const std::vector<float>& row, int64_t group) {
  const auto count = static_cast<int64_t>(row.size());
  const GridOf4Bits grid = grid_of_4bits(row.data(), count, group);
  const bf16 scale = scale_of_6bits(row.data(), count);
  std::vector<uint8_t> codes(row.size()), codes_of_6(row.size());
  std::vector<uint32_t> all = {grid.scale.bits, scale.bits};
  for (int64_t first = 0; first < count; first += group) {
    const GroupOf4Bits of = grid.groups[static_cast<size_t>(first / group)];
    all.push_back(of.stored());
    codes_of_4bits(row.data() + first, std::min(group, count - first), grid.scale.to_float(), of,
                   codes.data() + first);
  }
  codes_of_6bits(row.data(), count, scale.to_float(), codes_of_6.data());
  all.insert(all.end(), codes.begin(), codes.end());
  all.insert(all.end(), codes_of_6.begin(), codes_of_6.end());
  return all;
}

// Two machines must make the same bytes of the same model.
TEST(ScaleSearch, EveryInstructionSetFindsTheSameGridAndCodes) {
  const auto rows = random_rows(7);
  for (const int64_t group : {16, 32}) {
    std::vector<std::vector<uint32_t>> best;
    for (const auto& row : rows) best.push_back(stored(row, group));
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      const InstructionSet set(target);
      for (size_t i = 0; i < rows.size(); ++i) {
        ASSERT_EQ(stored(rows[i], group), best[i])
            << hwy::TargetName(target) << ", row " << i << " of seed 7, groups of " << group;
      }
    }
  }
}

// Groups depend on ratios of values alone, even near the largest and smallest numbers of fp32.
TEST(ScaleSearch, MultiplyingByAPowerOfTwoChangesOnlyTheScale) {
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal;
  for (int turn = 0; turn < 50; ++turn) {
    std::vector<float> row(kQuantGroup);
    for (float& value : row) value = normal(random);
    const GridOf4Bits grid = grid_of_4bits(row.data(), kQuantGroup, 16);
    for (const int exponent : {-110, -60, 60, 120, 126}) {
      std::vector<float> scaled = row;
      for (float& value : scaled) value = std::ldexp(value, exponent);
      if (!std::ranges::all_of(scaled, [](float value) { return std::isfinite(value); })) continue;
      const GridOf4Bits other = grid_of_4bits(scaled.data(), kQuantGroup, 16);
      SCOPED_TRACE(fmt::format("row {} of seed 11, times 2^{}", turn, exponent));
      ASSERT_EQ(other.scale.to_float(), std::ldexp(grid.scale.to_float(), exponent));
      for (size_t g = 0; g < grid.groups.size(); ++g) {
        ASSERT_EQ(other.groups[g].stored(), grid.groups[g].stored()) << g;
      }
      ASSERT_EQ(scale_of_6bits(scaled.data(), kQuantGroup).to_float(),
                std::ldexp(scale_of_6bits(row.data(), kQuantGroup).to_float(), exponent));
    }
  }
}

}  // namespace
}  // namespace neuronmm::ops
