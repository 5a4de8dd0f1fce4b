#include "compress/gram.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "oracle.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

TEST(Gram, MatchesLongDouble) {
  std::mt19937_64 random(17);
  std::normal_distribution<float> normal;
  for (const int64_t size : {1, 33, 300}) {  // below, beside and above the column block
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
        // n additions of products, each rounded: n·2^-53 of the sum of magnitudes, which is at
        // most sqrt(g_ii·g_jj).
        const double magnitude = std::sqrt(actual(i, i) * actual(j, j));
        const double bound = static_cast<double>(tokens) * 0x1p-53 * magnitude;
        const auto sum = static_cast<double>(sums[static_cast<size_t>(j * size + i)]);
        ASSERT_NEAR(actual(i, j), sum, bound) << i << " " << j;
        ASSERT_EQ(actual(i, j), actual(j, i));
      }
    }
  }
}

class GramFileTest : public testing::Test {
 protected:
  static constexpr int64_t kHidden = 6, kLayers = 2;

  void SetUp() override {
    path_ = fs::temp_directory_path() / fmt::format("neuronmm-gram-{}.safetensors", getpid());
    config_.hidden_size = kHidden;
    config_.num_hidden_layers = kLayers;
    std::mt19937_64 random(2);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      grams_.push_back({gram(random), gram(random)});
    }
  }
  void TearDown() override { fs::remove(path_); }

  static DoubleMatrix gram(std::mt19937_64& random) {
    const DoubleMatrix x = random_matrix(kHidden, 20, random);
    return multiply(x, Transpose::kNo, x, Transpose::kYes);
  }
  Status write(int64_t first = 0, int64_t count = kLayers) {
    const GramOrigin origin = {1234, "some text", {{"a \"b\".txt", "0123456789abcdef", 99, 1234}}};
    return write_gram_file(path_, config_, origin, first, count, [&](int64_t layer) {
      return Result<LayerGrams>(grams_[static_cast<size_t>(layer)]);
    });
  }
  void expect_refused(std::initializer_list<const char*> words) {
    const auto file = GramFile::open(path_, config_);
    ASSERT_FALSE(file.ok());
    for (const char* word : words) {
      EXPECT_NE(file.error().message.find(word), std::string::npos)
          << "no \"" << word << "\" in: " << file.error().message;
    }
    EXPECT_NE(file.error().message.find(path_.string()), std::string::npos);
  }

  fs::path path_;
  io::ModelConfig config_;
  std::vector<LayerGrams> grams_;
};

TEST_F(GramFileTest, GoesThereAndBack) {
  ASSERT_TRUE(write().ok());
  const auto file = GramFile::open(path_, config_);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->origin().tokens, 1234);
  EXPECT_EQ(file->origin().text, "some text");
  ASSERT_EQ(file->origin().sources.size(), 1u);
  EXPECT_EQ(file->origin().sources[0].name, "a \"b\".txt");
  EXPECT_EQ(file->origin().sources[0].tokens, 1234);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const auto grams = file->load(layer);
    ASSERT_TRUE(grams.ok()) << grams.error().message;
    const LayerGrams& expected = grams_[static_cast<size_t>(layer)];
    EXPECT_TRUE(std::equal(grams->in.data(), grams->in.data() + 36, expected.in.data()));
    EXPECT_TRUE(std::equal(grams->out.data(), grams->out.data() + 36, expected.out.data()));
  }
}

TEST_F(GramFileTest, OfAnotherModel) {
  ASSERT_TRUE(write().ok());
  config_.num_hidden_layers = 3;
  expect_refused({"3 layers", "2 layers"});
  config_.num_hidden_layers = 2;
  config_.hidden_size = 8;
  expect_refused({"hidden_size 8", "hidden_size 6"});
}

TEST_F(GramFileTest, WithMissingLayers) {
  ASSERT_TRUE(write(0, 1).ok());
  expect_refused({"expected 4", "found 2"});
}

TEST_F(GramFileTest, NotFinite) {
  grams_[1].out(2, 3) = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(write().ok());
  expect_refused({"model.layers.1.mlp.gram_out", "finite"});
}

TEST_F(GramFileTest, NotSymmetric) {
  grams_[1].in(2, 3) += 1e-3;
  ASSERT_TRUE(write().ok());
  expect_refused({"model.layers.1.mlp.gram_in", "symmetric"});
}

TEST_F(GramFileTest, NegativeDiagonal) {
  grams_[0].in(4, 4) = -1.0;
  ASSERT_TRUE(write().ok());
  expect_refused({"model.layers.0.mlp.gram_in", "diagonal"});
}

TEST_F(GramFileTest, NotThere) { expect_refused({}); }

TEST_F(GramFileTest, NotASafetensorsFile) {
  std::ofstream(path_) << "hello";
  expect_refused({});
}

TEST_F(GramFileTest, OtherTensors) {
  const auto write_one = [&](DType dtype, const Shape& shape,
                             const std::map<std::string, std::string>& metadata) {
    auto writer = io::SafetensorsWriter::create_checked(
        path_, {{"model.layers.0.mlp.gram_in", dtype, shape}}, metadata);
    ASSERT_TRUE(writer.ok());
    const std::vector<std::byte> zeros(static_cast<size_t>(TensorView{dtype, shape}.size_bytes()));
    ASSERT_TRUE(writer->append(zeros).ok());
    ASSERT_TRUE(writer->finish().ok());
  };
  write_one(DType::kF64, {6, 6}, {});
  expect_refused({"hidden_size", "metadata"});
  const std::map<std::string, std::string> metadata = {
      {"hidden_size", "6"}, {"num_hidden_layers", "2"}, {"tokens", "-3"}};
  write_one(DType::kF64, {6, 6}, metadata);
  expect_refused({"tokens", "-3"});
  ASSERT_TRUE(write(0, 1).ok());
  const auto read = read_layer_grams(path_, 1, kHidden);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("model.layers.1.mlp.gram_in"), std::string::npos);
  write_one(DType::kF32, {6, 6}, {});
  ASSERT_FALSE(read_layer_grams(path_, 0, kHidden).ok());
  write_one(DType::kF64, {6, 5}, {});
  ASSERT_FALSE(read_layer_grams(path_, 0, kHidden).ok());
}

}  // namespace
}  // namespace neuronmm::compress
