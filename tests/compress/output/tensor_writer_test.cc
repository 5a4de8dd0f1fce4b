// Tests the reading of tensors in pieces.
#include "compress/output/tensor_writer.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/tensor.h"

namespace neuronmm::compress {
namespace {

// Returns the values that visit_floats() passes on.
std::vector<float> visited_values(const ops::WeightView& weight) {
  std::vector<float> all;
  const Status status = visit_floats(weight, [&](const TensorView& rows) -> Status {
    const size_t before = all.size();
    all.resize(before + static_cast<size_t>(rows.size()));
    to_floats(rows, 0, rows.size(), all.data() + before);
    return {};
  });
  EXPECT_TRUE(status.ok());
  return all;
}

TEST(VisitFloats, PassesOnTensorsOfAllShapes) {
  std::vector<double> values = {1.5, -2.0, 3.25, 4.0, 0.5, -6.0};
  std::vector<std::byte> bytes;
  append_rounded(DType::kBF16, values.data(), std::ssize(values), bytes);
  for (const Shape& shape :
       {Shape{}, Shape{6}, Shape{2, 3}, Shape{1, 3, 2}, Shape{0}, Shape{3, 0}, Shape{0, 3}}) {
    SCOPED_TRACE(shape_string(shape));
    const TensorView tensor = {DType::kBF16, shape, bytes.data()};
    std::vector<float> expected(static_cast<size_t>(tensor.size()));
    std::copy_n(values.begin(), expected.size(), expected.begin());
    EXPECT_EQ(visited_values(tensor), expected);
  }
}

TEST(VisitFloats, PassesOnThePiecesOfALargeTensorInOrder) {
  const int64_t rows = 5000, columns = 2000;
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const TensorView tensor = {
      DType::kF32, {rows, columns}, reinterpret_cast<const std::byte*>(values.data())};
  EXPECT_EQ(visited_values(tensor), values);
}

TEST(VisitFloats, ReturnsTheFirstError) {
  const std::vector<float> values = {1.0f};
  const TensorView tensor = {DType::kF32, {1}, reinterpret_cast<const std::byte*>(values.data())};
  const Status status = visit_floats(tensor, [](const TensorView&) { return fail("full"); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "full");
}

}  // namespace
}  // namespace neuronmm::compress
