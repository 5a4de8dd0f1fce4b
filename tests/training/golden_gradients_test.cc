// Compares gradients of whole models with those of PyTorch (make_golden_gradients.py).

#include <cmath>

#include <gtest/gtest.h>

#include "drawn_model.h"
#include "io/safetensors.h"
#include "places.h"
#include "training/model_training.h"
#include "training/optimizer.h"

namespace neuronmm::training {
namespace {

class GoldenGradients : public testing::TestWithParam<std::string> {
 protected:
  std::vector<double> golden(const std::string& name) const {
    const TensorView& tensor = file_.tensors().at(GetParam() + "/" + name);
    std::vector<double> values(static_cast<size_t>(tensor.size()));
    to_doubles(tensor, 0, tensor.size(), values.data());
    return values;
  }

  // Compares all gradients. Errors are relative to the norm of the tensor's gradient.
  template <typename T>
  void compare(double bound) {
    const io::ModelConfig config = drawn_config(GetParam());
    const auto student = open_drawn_model<T>(config, drawn_tensors(config));
    const auto teacher = open_drawn_model<T>(config, drawn_tensors(config, "teacher."));
    student->train([](std::string_view) { return true; });
    ModelTraining<T> training(*student, GetParam() == "teacher" ? teacher.get() : nullptr, 0);
    const double loss = training.accumulate({drawn_sequences({8, 5}, config.vocab_size)}, 1.0);
    const double expected_loss = golden("loss").at(0);
    EXPECT_NEAR(loss, expected_loss, bound * std::abs(expected_loss));
    int64_t compared = 0;
    for (const Parameter<T>* const parameter : trained_parameters<T>(*student)) {
      compare(*parameter, golden(parameter->name), bound);
      ++compared;
    }
    EXPECT_GT(compared, 15);
  }

  template <typename T>
  static void compare(const Parameter<T>& parameter, const std::vector<double>& expected,
                      double bound) {
    ASSERT_EQ(std::ssize(expected), parameter.rows + 1) << parameter.name;
    const double norm = expected.back();
    double squares = 0.0;
    for (int64_t i = 0; i < parameter.rows; ++i) {
      double row = 0.0;
      for (int64_t j = 0; j < parameter.columns; ++j) {
        const auto g = static_cast<double>(parameter.gradient.row(i)[j]);
        row += g * drawn("rows", j);
        squares += g * g;
      }
      EXPECT_NEAR(row, expected[static_cast<size_t>(i)], bound * norm)
          << parameter.name << " row " << i;
    }
    EXPECT_NEAR(std::sqrt(squares), norm, bound * norm) << parameter.name;
  }

  const io::SafetensorsFile file_ =
      io::SafetensorsFile::open(source_dir() / "tests/training/golden_gradients.safetensors")
          .value();
};

TEST_P(GoldenGradients, AgreeInFp64) { compare<double>(1e-11); }
TEST_P(GoldenGradients, AgreeInFp32) { compare<float>(2e-5); }

INSTANTIATE_TEST_SUITE_P(Models, GoldenGradients,
                         testing::Values("llama", "teacher", "mistral", "qwen2", "qwen3", "olmo2",
                                         "gemma2", "granite", "biases", "uv", "pivoted", "narrow",
                                         "neurons", "mixed", "mixtral", "qwen3_moe", "olmoe",
                                         "granite_moe", "gpt_oss"),
                         [](const auto& with) { return with.param; });

}  // namespace
}  // namespace neuronmm::training
