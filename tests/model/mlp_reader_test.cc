// This test reads MLPs of every form by their tensor names, and folders whose tensors contradict
// their config.

#include "model/mlp_reader.h"

#include <gtest/gtest.h>

#include "model/tiny_model.h"

namespace neuronmm::model {
namespace {

const std::string kPrefix = "model.layers.1.mlp.";

class MlpReaderTest : public testing::Test {
 protected:
  // Makes a model whose second layer has this shape, with its tensors.
  void use(const std::string& form, const io::MlpShape& shape) {
    config.compression = tiny_record(form, {io::MlpShape{}, shape});
    tensors = random_tensors(config, 3);
  }
  Result<ops::MlpWeight> read(bool recorded = true) {
    const ModelFolder folder;
    folder.write_tensors(tensors);
    NMM_ASSIGN(auto opened, io::Checkpoint::open(folder.path()));
    checkpoint = std::make_unique<io::Checkpoint>(std::move(opened));
    MlpReader reader(*checkpoint, config, kPrefix);
    auto mlp = reader.read(recorded ? &config.compression->ranks[1] : nullptr);
    names = reader.names();
    return mlp;
  }
  void expect_error_naming(const std::vector<std::string>& parts) {
    const auto mlp = read();
    ASSERT_FALSE(mlp.ok());
    for (const std::string& part : parts) {
      EXPECT_NE(mlp.error().message.find(part), std::string::npos)
          << part << " is not in: " << mlp.error().message;
    }
  }
  TestTensor& tensor(const std::string& name) { return tensors.at(kPrefix + name); }
  std::set<std::string> mlp_names() const {
    std::set<std::string> found;
    for (const auto& [name, ignored] : tensors) {
      if (name.starts_with(kPrefix)) found.insert(name);
    }
    return found;
  }
  void expect_values(const ops::WeightView& weight, const std::string& name, const Shape& shape) {
    EXPECT_EQ(weight.shape, shape) << name;
    std::vector<float> values(static_cast<size_t>(weight.size()));
    ops::to_floats(weight, 0, weight.size(), values.data());
    EXPECT_EQ(values, tensor(name).values) << name;
  }
  void expect_index(const ops::Pivots& pivots, const std::string& name) {
    EXPECT_EQ(std::vector<float>(pivots.index.begin(), pivots.index.end()), tensor(name).values);
  }

  io::ModelConfig config = tiny_config(io::Architecture::kLlama);  // H 16, I 24
  TestTensors tensors;
  std::unique_ptr<io::Checkpoint> checkpoint;  // the memory that the weights point into
  std::set<std::string> names;
};

TEST_F(MlpReaderTest, ReadsPivots) {
  use("pivoted", {.gate = 5, .up = 0, .down = 7});
  const auto mlp = read();
  ASSERT_TRUE(mlp.ok()) << mlp.error().message;
  EXPECT_EQ(names, mlp_names());
  EXPECT_TRUE(mlp->in.empty() && mlp->up.in.empty() && mlp->gate.out.empty());
  expect_index(mlp->gate.in, "gate_pivots");
  expect_values(mlp->gate.in.map_t, "gate_pivot_proj.weight", {5, 11});
  expect_values(mlp->gate.w_t, "gate_proj.weight", {24, 5});
  expect_values(mlp->up.w_t, "up_proj.weight", {24, 16});
  expect_index(mlp->down.out, "down_pivots");
  expect_values(mlp->down.out.map_t, "down_pivot_proj.weight", {9, 7});
  expect_values(mlp->down.w_t, "down_proj.weight", {7, 24});
  EXPECT_EQ(mlp->gate.rank(), 5);
  EXPECT_EQ(mlp->gate.in_features(), 16);
  EXPECT_EQ(mlp->gate.parameters(), 5 * 11 + 24 * 5);
  EXPECT_EQ(mlp->down.out_features(), 16);
  EXPECT_EQ(mlp->down.stored_bytes(), 4 * (9 * 7 + 7 * 24));
}

TEST_F(MlpReaderTest, ReadsSharedPivotsAndFewerNeurons) {
  use("mixed", {.down = 3, .input = 9, .neurons = 20});
  const auto mlp = read();
  ASSERT_TRUE(mlp.ok()) << mlp.error().message;
  EXPECT_EQ(names, mlp_names());
  expect_index(mlp->in, "input_pivots");
  expect_values(mlp->in.map_t, "input_pivot_proj.weight", {9, 7});
  expect_values(mlp->gate.w_t, "gate_proj.weight", {20, 9});
  expect_values(mlp->up.w_t, "up_proj.weight", {20, 9});
  expect_values(mlp->down.w_t, "down_proj.weight", {3, 20});
  EXPECT_EQ(mlp->in_features(), 16);
  EXPECT_EQ(mlp->neurons(), 20);
}

TEST_F(MlpReaderTest, ReadsFewerNeurons) {
  use("neurons", {.neurons = 6});
  const auto mlp = read();
  ASSERT_TRUE(mlp.ok()) << mlp.error().message;
  expect_values(mlp->gate.w_t, "gate_proj.weight", {6, 16});
  expect_values(mlp->down.w_t, "down_proj.weight", {16, 6});
  EXPECT_FALSE(mlp->gate.pivoted() || mlp->down.pivoted());
}

TEST_F(MlpReaderTest, ReadsInt8MapsAndWeights) {
  use("mixed", {.down = 3, .input = 9});
  config.quantization = io::Quantization{};
  tensors = quantized_tensors(config, tensors);
  const auto mlp = read();
  ASSERT_TRUE(mlp.ok()) << mlp.error().message;
  EXPECT_EQ(names, mlp_names());  // including the scales
  EXPECT_TRUE(mlp->in.map_t.quantized() && mlp->down.out.map_t.quantized() &&
              mlp->gate.w_t.quantized());
  EXPECT_EQ(mlp->down.stored_bytes(), 3 * 24 + 2 * 3 + 13 * 3 + 2 * 13);
  expect_index(mlp->in, "input_pivots");
}

// Without a record the tensors define all sizes except the neurons.
TEST_F(MlpReaderTest, NeedsNoRecordForPivots) {
  use("pivoted", {.gate = 5, .up = 6, .down = 7});
  const auto mlp = read(false);
  ASSERT_TRUE(mlp.ok()) << mlp.error().message;
  EXPECT_EQ(mlp->up.rank(), 6);
}

TEST_F(MlpReaderTest, RefusesAMissingMap) {
  use("mixed", {.down = 3, .input = 9});
  for (const std::string which : {"input", "down"}) {
    const TestTensor map = tensor(which + "_pivot_proj.weight");
    tensors.erase(kPrefix + which + "_pivot_proj.weight");
    expect_error_naming({kPrefix + which + "_pivot_proj.weight", "missing"});
    tensors[kPrefix + which + "_pivot_proj.weight"] = map;
  }
  tensors.erase(kPrefix + "input_pivots");
  expect_error_naming({"gate_proj.weight", "[24, 16]", "[24, 9]"});
  use("pivoted", {.gate = 5, .up = 6, .down = 7});
  tensors.erase(kPrefix + "gate_proj.weight");
  expect_error_naming({"gate_proj.weight", "neither"});
}

TEST_F(MlpReaderTest, RefusesPivotsThatDoNotAscendInRange) {
  use("narrow", {.down = 3, .input = 4});
  const std::string name = kPrefix + "input_pivots";
  for (const std::vector<float>& numbers :
       {std::vector<float>{0, 2, 2, 5}, {3, 1, 4, 5}, {-1, 1, 4, 5}, {0, 1, 4, 16}}) {
    tensors.at(name).values = numbers;
    expect_error_naming({name, "ascending", "below 16", " after "});
  }
  tensors.at(name).values = {0, 1, 4, 15};
  EXPECT_TRUE(read().ok());
}

TEST_F(MlpReaderTest, RefusesPivotsOfAnotherDTypeOrShape) {
  use("narrow", {.down = 3, .input = 4});
  const std::string name = kPrefix + "down_pivots";
  tensors.at(name).dtype = DType::kF32;
  expect_error_naming({name, "I32", "F32 [3]"});
  tensors.at(name) = {DType::kI32, {3, 1}, {1, 2, 3}};
  expect_error_naming({name, "[r]", "I32 [3, 1]"});
  tensors.at(name) = {DType::kI32, {0}, {}};
  expect_error_naming({name, "0 < r < 16", "I32 [0]"});
  tensors.at(name) = {DType::kI32, {16}, std::vector<float>(16)};
  for (size_t i = 0; i < 16; ++i) tensors.at(name).values[i] = static_cast<float>(i);
  expect_error_naming({name, "0 < r < 16", "I32 [16]"});
}

TEST_F(MlpReaderTest, RefusesMapsAndWeightsThatDoNotFitThePivots) {
  use("narrow", {.down = 3, .input = 4});
  TestTensor& map = tensor("input_pivot_proj.weight");
  std::swap(map.shape[0], map.shape[1]);
  expect_error_naming({"input_pivot_proj.weight", "[4, 12]", "[12, 4]"});
  use("narrow", {.down = 3, .input = 4});
  tensor("down_proj.weight") = {DType::kF32, {4, 24}, std::vector<float>(96)};
  expect_error_naming({"down_proj.weight", "[3, 24]", "[4, 24]"});
}

TEST_F(MlpReaderTest, RefusesTwoFormsAtOnce) {
  use("pivoted", {.gate = 5, .up = 6, .down = 7});
  const TestTensors pivoted = tensors;
  tensors[kPrefix + "gate_v_proj.weight"] = {DType::kF32, {5, 16}, std::vector<float>(80)};
  expect_error_naming({kPrefix + "gate", "both", "gate_v_proj.weight"});
  tensors = pivoted;
  tensors[kPrefix + "input_pivots"] = {DType::kI32, {1}, {0}};
  tensors[kPrefix + "input_pivot_proj.weight"] = {DType::kF32, {1, 15}, std::vector<float>(15)};
  expect_error_naming({kPrefix + "gate", "both", "input_pivots"});
}

TEST_F(MlpReaderTest, RefusesSizesThatAreNotTheRecordedOnes) {
  use("mixed", {.down = 3, .input = 9, .neurons = 20});
  const io::MlpShape right = config.compression->ranks[1];
  for (int64_t io::MlpShape::*size :
       {&io::MlpShape::gate, &io::MlpShape::up, &io::MlpShape::down, &io::MlpShape::input}) {
    config.compression->ranks[1] = right;
    config.compression->ranks[1].*size = 2;
    expect_error_naming({"model.layers.1.mlp", "config.json", "0, 0, 3, 9"});
  }
  config.compression->ranks[1] = right;
  config.compression->ranks[1].neurons = 21;
  expect_error_naming({"gate_proj.weight", "[21, 9]", "[20, 9]"});
}

TEST_F(MlpReaderTest, RefusesAFormThatIsNotTheRecordedOne) {
  use("pivoted", {.gate = 5, .up = 6, .down = 7});
  config.compression->form = "uv";
  expect_error_naming({"\"uv\"", "found pivots"});
  use("narrow", {.input = 9});
  config.compression->form = "uv";
  expect_error_naming({"\"uv\"", "found pivots"});
  use("uv", {.gate = 5, .up = 6, .down = 7});
  EXPECT_TRUE(read().ok());
  config.compression->form = "mixed";
  expect_error_naming({"\"mixed\"", "found two factors"});
}

}  // namespace
}  // namespace neuronmm::model
