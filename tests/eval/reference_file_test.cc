// This test writes and reads reference logits as safetensors, and reads files that are wrong.

#include "eval/reference_file.h"

#include "eval/eval_test.h"

namespace neuronmm::eval {
namespace {

class ReferenceFile : public EvalTest {
 protected:
  // Writes a file of these tensors. Tensors of integer dtypes must have whole numbers as values.
  std::filesystem::path file_of(const model::TestTensors& tensors) const {
    folder_.write_tensors(tensors);  // the file is model.safetensors
    return folder_.path() / "model.safetensors";
  }
  std::string error_of(const model::TestTensors& tensors) const {
    return message_of(read_reference_logits(file_of(tensors), config_));
  }

  model::ModelFolder folder_;
};

TEST_F(ReferenceFile, WrittenLogitsReadBackUnchanged) {
  const auto model = random_model(3);
  const std::vector<std::vector<TokenId>> prompts = {{1, 2, 3}, {4}};
  const auto written = value_of(record_reference_logits(model, prompts, 5, silent_));
  const std::filesystem::path path = folder_.path() / "r.safetensors";
  ASSERT_TRUE(write_reference_logits(path, written).ok());
  const auto read = value_of(read_reference_logits(path, config_));
  ASSERT_EQ(read.size(), written.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].tokens, written[i].tokens);
    EXPECT_EQ(read[i].first_position, written[i].first_position);
    ASSERT_EQ(read[i].logits.rows(), written[i].logits.rows());
    const auto size = static_cast<size_t>(read[i].logits.rows() * read[i].logits.columns());
    EXPECT_TRUE(
        std::equal(read[i].logits.data(), read[i].logits.data() + size, written[i].logits.data()));
  }
}

TEST_F(ReferenceFile, OtherExtensionsAreReadAsJson) {
  config_.vocab_size = 2;
  folder_.write_text("r.json", R"({"sequences": [[1]], "logits": [[[0.5, 2]]]})");
  const auto read = value_of(read_reference_logits(folder_.path() / "r.json", config_));
  EXPECT_EQ(read[0].logits.row(0)[1], 2.0f);
}

TEST_F(ReferenceFile, ErrorsNameFileAndTensor) {
  EXPECT_TRUE(has(error_of({{"other", {DType::kF32, {1}, {0}}}}), "found no tensor sequences.0"));
  const std::vector<float> row(19, 0.0f);
  const auto with_ids = [&](model::TestTensor ids) {
    return error_of({{"sequences.0", std::move(ids)}, {"logits.0", {DType::kF32, {1, 19}, row}}});
  };
  const std::string floats = with_ids({DType::kF32, {1}, {0}});
  EXPECT_TRUE(has(floats, "model.safetensors: sequences.0: expected token ids")) << floats;
  EXPECT_TRUE(has(floats, "found F32 [1]")) << floats;
}

}  // namespace
}  // namespace neuronmm::eval
