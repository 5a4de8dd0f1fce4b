// Tests the parameters of each form and the uniform sizes against the tensors of such models.
#include "compress/sizes/form.h"

#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "model/tensor_specs.h"
#include "model/tiny_model.h"

namespace neuronmm::compress {
namespace {

// Returns the parameters of the MLPs without the indices of pivots.
int64_t counted_parameters(const io::ModelConfig& config) {
  int64_t count = 0;
  for (const io::TensorSpec& spec : model::tensor_specs(config)) {
    if (spec.name.find(".mlp.") == std::string::npos || spec.dtype == DType::kI32) continue;
    int64_t size = 1;
    for (const int64_t extent : spec.shape) size *= extent;
    count += size;
  }
  return count;
}

TEST(Form, ParametersAreThoseOfTheTensors) {
  io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  config.num_hidden_layers = 1;
  const MlpSizes sizes = {config.hidden_size, config.intermediate_size};
  EXPECT_EQ(sizes.dense_parameters(), counted_parameters(config));
  for (const int64_t neurons : {int64_t{0}, int64_t{1}, int64_t{9}, sizes.inner - 1}) {
    for (const int64_t down : {int64_t{0}, int64_t{1}, int64_t{6}, sizes.hidden - 1}) {
      for (const io::MlpShape inputs :
           {io::MlpShape{}, io::MlpShape{.gate = 3}, io::MlpShape{.up = 15},
            io::MlpShape{.gate = 1, .up = 8}, io::MlpShape{.input = 1}, io::MlpShape{.input = 7},
            io::MlpShape{.input = 15}}) {
        io::MlpShape shape = inputs;
        shape.down = down;
        shape.neurons = neurons;
        if (shape == io::MlpShape{}) continue;
        config.compression.emplace();
        config.compression->form = "mixed";
        config.compression->ranks = {shape};
        EXPECT_EQ(sizes.parameters(shape), counted_parameters(config))
            << fmt::format("gate {} up {} down {} input {} neurons {}", shape.gate, shape.up,
                           shape.down, shape.input, shape.neurons);
      }
    }
  }
}

// Returns the shape with `by` added to all its sizes.
io::MlpShape resized(io::MlpShape shape, int64_t by) {
  for (int64_t io::MlpShape::*size : {&io::MlpShape::gate, &io::MlpShape::up, &io::MlpShape::down,
                                      &io::MlpShape::input, &io::MlpShape::neurons}) {
    if (shape.*size > 0) shape.*size += by;
  }
  return shape;
}

// With blocks of 1, the next larger size keeps at least the requested share, and the next smaller
// size at most that.
TEST(Form, UniformSizesKeepTheRequestedShare) {
  for (const MlpSizes sizes : {MlpSizes{2048, 8192}, MlpSizes{576, 1536}, MlpSizes{256, 256},
                               MlpSizes{100, 87}, MlpSizes{4096, 14336}}) {
    for (const Form form : {Form::kPivoted, Form::kNarrow, Form::kNeurons}) {
      for (const double ratio : {0.05, 0.2, 0.5, 0.9}) {
        SCOPED_TRACE(
            fmt::format("{} of {} x {} at {}", form_name(form), sizes.hidden, sizes.inner, ratio));
        const double asked = (1.0 - ratio) * static_cast<double>(sizes.dense_parameters());
        const auto nearest = uniform_shape(form, sizes, {ratio, 1});
        ASSERT_TRUE(nearest.ok());
        EXPECT_LE(static_cast<double>(sizes.parameters(resized(*nearest, -1))),
                  asked * (1 + 1e-12));
        EXPECT_GE(static_cast<double>(sizes.parameters(resized(*nearest, 1))), asked * (1 - 1e-12));
      }
    }
  }
}

// The expected sizes are those of a published table for pivots at the bytes of equation (5).
TEST(Form, UniformSizesComeInBlocks) {
  const MlpSizes llama = {2048, 8192};
  const auto shape = uniform_shape(Form::kNarrow, llama, {0.2, 128});
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->input % 128, 0);
  EXPECT_EQ(shape->input, shape->down);
  EXPECT_EQ(shape->neurons + shape->gate + shape->up, 0);
  const double asked = 0.8 * static_cast<double>(llama.dense_parameters());
  EXPECT_LT(static_cast<double>(llama.parameters(resized(*shape, -128))), asked);
  EXPECT_GT(static_cast<double>(llama.parameters(resized(*shape, 128))), asked);
  const auto neurons = uniform_shape(Form::kNeurons, llama, {0.25, 32});
  ASSERT_TRUE(neurons.ok());
  EXPECT_EQ(*neurons, (io::MlpShape{.neurons = 6144}));
}

TEST(Form, SizesThatKeepNothingOrSaveNothingAreRefused) {
  const MlpSizes sizes = {64, 128};
  for (const Form form : {Form::kPivoted, Form::kNarrow, Form::kNeurons}) {
    SCOPED_TRACE(form_name(form));
    const auto nothing = uniform_shape(form, sizes, {0.95, 64});
    ASSERT_FALSE(nothing.ok());
    EXPECT_NE(nothing.error().message.find("ratio 0.95 with block 64"), std::string::npos);
    EXPECT_NE(nothing.error().message.find("keeps nothing; use a smaller ratio"), std::string::npos)
        << nothing.error().message;
    const auto all = uniform_shape(form, sizes, {0.01, 64});
    ASSERT_FALSE(all.ok());
    EXPECT_NE(all.error().message.find("saves nothing; use a larger ratio"), std::string::npos)
        << all.error().message;
  }
}

// Two factors save nothing from rank H·I / (H + I) = 32.4 on, although the full rank is 48.
TEST(Form, RanksOfTwoFactorsBeyondTheBreakEvenAreRefused) {
  for (const MlpSizes sizes : {MlpSizes{48, 100, true}, MlpSizes{100, 48, true}}) {
    const auto saves = uniform_shape(Form::kUv, sizes, {0.01, 4});
    ASSERT_TRUE(saves.ok());
    EXPECT_EQ(*saves, (io::MlpShape{32, 32, 32}));
    const auto larger = uniform_shape(Form::kUv, sizes, {0.01, 12});
    ASSERT_FALSE(larger.ok());
    EXPECT_NE(larger.error().message.find("gives 36 of 48, which saves nothing"), std::string::npos)
        << larger.error().message;
  }
}

// If an MLP has fewer neurons than inputs, its ranks are less than the neurons. More pivots would
// need more parameters than the matrix has, and no reader accepts such a rank.
TEST(Form, RanksEndAtTheSmallerSide) {
  for (const auto& [form, inner, block] :
       {std::tuple(Form::kPivoted, 40, 64), std::tuple(Form::kNarrow, 64, 8)}) {
    SCOPED_TRACE(form_name(form));
    const auto shape = uniform_shape(form, {128, inner}, {0.1, block});
    ASSERT_FALSE(shape.ok());
    EXPECT_NE(shape.error().message.find(fmt::format("of {}, which saves nothing", inner)),
              std::string::npos)
        << shape.error().message;
    const auto smaller = uniform_shape(form, {128, inner}, {0.3, 8});
    ASSERT_TRUE(smaller.ok());
    EXPECT_LT(smaller->down, inner);
  }
  const MlpSizes sizes = {128, 40};
  EXPECT_EQ(sizes.parameters(smallest_shape(Form::kPivoted, sizes, 64)), sizes.dense_parameters());
}

TEST(Form, NamesAreReadBack) {
  for (const Form form :
       {Form::kUv, Form::kPivoted, Form::kNarrow, Form::kNeurons, Form::kMixed, Form::kAuto}) {
    const auto parsed = parse_form(form_name(form));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, form);
  }
  for (const char* wrong : {"", "UV", "narrow ", "mixe"}) {
    const auto parsed = parse_form(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_NE(parsed.error().message.find("\"" + std::string(wrong) + "\""), std::string::npos);
  }
}

}  // namespace
}  // namespace neuronmm::compress
