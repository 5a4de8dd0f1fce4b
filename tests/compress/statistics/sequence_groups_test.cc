// This file tests how a text is divided among processes, and the messages between them.

#include "compress/statistics/sequence_groups.h"

#include <gtest/gtest.h>

#include "compress/statistics/mlp_message.h"

namespace neuronmm::compress {
namespace {

std::vector<std::vector<text::TokenId>> sequences_of(std::initializer_list<size_t> lengths) {
  std::vector<std::vector<text::TokenId>> sequences;
  for (const size_t length : lengths) sequences.emplace_back(length);
  return sequences;
}

TEST(SequenceGroups, AllGroupsButTheLastHaveEnoughTokens) {
  const auto groups = sequence_groups(sequences_of({2048, 512, 512, 512, 512, 3000, 100}));
  ASSERT_EQ(groups.size(), 4u);
  const std::vector<std::pair<size_t, size_t>> expected = {{0, 1}, {1, 5}, {5, 6}, {6, 7}};
  for (size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(std::pair(groups[i].first, groups[i].end), expected[i]);
  }
  EXPECT_TRUE(sequence_groups({}).empty());
}

TEST(Message, ReadsBackTheValuesThatWereWritten) {
  DoubleMatrix matrix(2, 3);
  for (int64_t i = 0; i < matrix.size(); ++i) matrix.data()[i] = 0.1 * static_cast<double>(i);
  MessageWriter out;
  out.put(int64_t{-7});
  out.put(std::string("gate_proj.weight"));
  out.put(DoubleMatrix());
  out.put(matrix);
  out.put(std::vector<int32_t>{});
  out.put(true);
  const Bytes bytes = out.take();
  MessageReader in(bytes);
  EXPECT_EQ(in.value<int64_t>(), -7);
  EXPECT_EQ(in.text(), "gate_proj.weight");
  EXPECT_EQ(in.matrix().size(), 0);
  const DoubleMatrix read = in.matrix();
  ASSERT_EQ(read.rows(), 2);
  ASSERT_EQ(read.columns(), 3);
  EXPECT_TRUE(std::equal(read.data(), read.data() + 6, matrix.data()));
  EXPECT_TRUE(in.values<int32_t>().empty());
  EXPECT_TRUE(in.value<bool>());
  EXPECT_TRUE(in.at_end());
}

// The MLP has pivots, factors, and a matrix that comes unchanged from the model and is not sent.
TEST(Message, LeavesOutMatricesThatTheReceiverHas) {
  const std::vector<float> values(64, 0.5f);
  const auto tensor = [&](int64_t rows, int64_t columns) {
    return TensorView{
        DType::kF32, {rows, columns}, reinterpret_cast<const std::byte*>(values.data())};
  };
  ops::MlpWeight own;
  own.down.w_t = tensor(4, 8);
  ops::MlpWeight mlp = own;
  mlp.gate.w_t = tensor(8, 2);
  mlp.gate.in = {{0, 3}, tensor(2, 2)};
  mlp.up.u_t = tensor(2, 4);
  mlp.up.v_t = tensor(8, 2);
  MessageWriter out;
  put_mlp(mlp, own, out);
  const Bytes bytes = out.take();
  MessageReader in(bytes);
  const ReceivedMlp received(in, own);
  EXPECT_TRUE(in.at_end());
  EXPECT_EQ(received.weight().down.w_t.data, own.down.w_t.data);
  EXPECT_EQ(received.weight().gate.in.index, mlp.gate.in.index);
  EXPECT_EQ(received.weight().gate.w_t.shape, (Shape{8, 2}));
  EXPECT_NE(received.weight().gate.w_t.data, mlp.gate.w_t.data);
  EXPECT_EQ(received.weight().up.rank(), 2);
  EXPECT_EQ(received.weight().up.v_t.shape, (Shape{8, 2}));
}

}  // namespace
}  // namespace neuronmm::compress
