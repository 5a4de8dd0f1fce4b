// Tests slices of weights that another program has rounded: rows and columns are views of the same
// codes, and have the values of the matrix.

#include "tensor_parallel/slices.h"

#include <random>

#include <gtest/gtest.h>

#include "ops/drawn_codes.h"

namespace neuronmm::tensor_parallel {
namespace {

constexpr uint64_t kSliceSeed = 5;
constexpr int64_t kRows = 14, kColumns = 48;

std::vector<float> values_of(const ops::WeightView& weight) {
  std::vector<float> values(static_cast<size_t>(weight.size()));
  to_floats(weight, 0, weight.size(), values.data());
  return values;
}

class CodedSlices : public testing::Test {
 protected:
  void expect_values(const ops::WeightView& part, const Share& rows, const Share& columns) {
    ASSERT_EQ(part.shape, (Shape{rows.count, columns.count}));
    const std::vector<float> found = values_of(part);
    for (int64_t i = 0; i < rows.count; ++i) {
      for (int64_t k = 0; k < columns.count; ++k) {
        ASSERT_EQ(found[static_cast<size_t>(i * columns.count + k)],
                  codes_.value(rows.first + i, columns.first + k))
            << i << ", " << k;
      }
    }
  }

  std::mt19937_64 random_{kSliceSeed};
  DrawnCodes codes_{CodeKind::kInt4, kRows, kColumns, 16, true, random_};
  ColumnCopies copies_;
};

TEST_F(CodedSlices, RowsOfRows) {
  const ops::WeightView some = rows_of(ops::WeightView(codes_.view()), {3, 9});
  expect_values(some, {3, 9}, {0, kColumns});
  expect_values(rows_of(some, {2, 4}), {5, 4}, {0, kColumns});
}

TEST_F(CodedSlices, ColumnsKeepTheirGroups) {
  expect_values(copies_.columns_of(codes_.view(), {7, 30}), {0, kRows}, {7, 30});
}

TEST_F(CodedSlices, ColumnsOfSomeRows) {
  const ops::WeightView some = rows_of(ops::WeightView(codes_.view()), {4, 6});
  const ops::WeightView part = copies_.columns_of(some, {16, 16});
  expect_values(part, {4, 6}, {16, 16});
  expect_values(rows_of(part, {1, 3}), {5, 3}, {16, 16});
}

TEST_F(CodedSlices, RowsInAnotherOrder) {
  const CodedRows reversed(codes_, {9, 2, 2, 13});
  const std::vector<float> found = values_of(ops::WeightView(reversed.view(1, 3)));
  for (int64_t k = 0; k < kColumns; ++k) {
    EXPECT_EQ(found[static_cast<size_t>(k)], codes_.value(2, k));
    EXPECT_EQ(found[static_cast<size_t>(2 * kColumns + k)], codes_.value(13, k));
  }
}

}  // namespace
}  // namespace neuronmm::tensor_parallel
