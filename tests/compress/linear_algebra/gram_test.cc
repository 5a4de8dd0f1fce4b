#include "compress/linear_algebra/gram.h"

#include <gtest/gtest.h>

#include "compress/oracle.h"

namespace neuronmm::compress {
namespace {

TEST(Gram, SumsMatchLongDouble) {
  std::mt19937_64 random(17);
  std::normal_distribution<float> normal;
  // sizes of a part of a column block, and of more than one block
  for (const int64_t size : {1, 33, 300}) {
    SCOPED_TRACE(fmt::format("size {}, seed 17", size));
    DoubleMatrix lower(size, size);
    std::vector<long double> sums(static_cast<size_t>(size * size));
    int64_t tokens = 0;
    for (const int64_t count : {1, 0, 255, 270}) {
      Matrix rows(count, size);
      for (int64_t i = 0; i < count * size; ++i) rows.data()[i] = 100.0f * normal(random);
      add_gram(rows.view(), lower);
      for (int64_t t = 0; t < count; ++t) {
        for (int64_t j = 0; j < size; ++j) {
          for (int64_t i = 0; i < size; ++i) {
            sums[static_cast<size_t>(j * size + i)] +=
                static_cast<long double>(rows.row(t)[i]) * rows.row(t)[j];
          }
        }
      }
      tokens += count;
    }
    const DoubleMatrix actual = symmetric(lower);
    for (int64_t j = 0; j < size; ++j) {
      for (int64_t i = 0; i < size; ++i) {
        // Rounding n additions of products makes an error of n·2^-53 times the sum of magnitudes,
        // which is at most sqrt(g_ii·g_jj).
        const double magnitude = std::sqrt(actual(i, i) * actual(j, j));
        const double bound = static_cast<double>(tokens) * 0x1p-53 * magnitude;
        const auto sum = static_cast<double>(sums[static_cast<size_t>(j * size + i)]);
        ASSERT_NEAR(actual(i, j), sum, bound) << i << " " << j;
        ASSERT_EQ(actual(i, j), actual(j, i));
      }
    }
  }
}

}  // namespace
}  // namespace neuronmm::compress
