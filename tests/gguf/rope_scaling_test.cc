// Tests that the divisors which convert_hf_to_gguf.py makes of Llama 3's scaling give the scaling
// again.

#include "gguf/rope_scaling.h"

#include <cmath>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "io/io_test.h"

namespace neuronmm::gguf {
namespace {

using io::Llama3RopeScaling;

// The loop of the converter, in fp32 where it uses torch.float32.
std::vector<float> divisors_of(const Llama3RopeScaling& scaling, double theta, int head_dim) {
  std::vector<float> divisors;
  for (int i = 0; i < head_dim; i += 2) {
    const auto frequency =
        static_cast<float>(1.0 / std::pow(theta, i / static_cast<double>(head_dim)));
    const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
    const double context = scaling.original_max_position_embeddings;
    if (wavelength < context / scaling.high_freq_factor) {
      divisors.push_back(1.0f);
    } else if (wavelength > context / scaling.low_freq_factor) {
      divisors.push_back(static_cast<float>(scaling.factor));
    } else {
      const double smooth = (context / wavelength - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
      divisors.push_back(static_cast<float>(1 / ((1 - smooth) / scaling.factor + smooth)));
    }
  }
  return divisors;
}

TEST(Llama3Scaling, PublishedParametersAreFoundExactly) {
  for (const double factor : {8.0, 32.0}) {
    for (const int head_dim : {64, 128}) {
      const Llama3RopeScaling published{factor, 1.0, 4.0, 8192};
      const auto found =
          llama3_scaling(divisors_of(published, 500000.0, head_dim), 500000.0, {}, "rope_freqs");
      ASSERT_TRUE(found.ok()) << found.error().message;
      ASSERT_TRUE(found->has_value());
      EXPECT_EQ((*found)->factor, factor);
      EXPECT_EQ((*found)->low_freq_factor, 1.0);
      EXPECT_EQ((*found)->high_freq_factor, 4.0);
      EXPECT_EQ((*found)->original_max_position_embeddings, 8192);
    }
  }
}

// Other parameters may be found, but they must give the same divisors.
TEST(Llama3Scaling, FoundParametersGiveTheSameDivisors) {
  int cases = 0;
  for (const double theta : {10000.0, 500000.0}) {
    for (const int head_dim : {8, 16, 64, 128}) {
      for (const double low : {0.5, 1.0, 2.0}) {
        for (const double high : {3.0, 4.0, 16.0}) {
          for (const double context : {16.0, 300.0, 8192.0}) {
            const auto given = divisors_of({6.5, low, high, context}, theta, head_dim);
            const auto found = llama3_scaling(given, theta, {}, "rope_freqs");
            ASSERT_TRUE(found.ok()) << found.error().message << " " << theta << " " << head_dim
                                    << " " << low << " " << high << " " << context;
            if (!found->has_value()) continue;  // Nothing was scaled.
            const auto again = divisors_of(**found, theta, head_dim);
            for (size_t j = 0; j < given.size(); ++j)
              ASSERT_NEAR(again[j], given[j], 2e-4 * static_cast<double>(given[j]));
            ++cases;
          }
        }
      }
    }
  }
  EXPECT_GT(cases, 100);
}

TEST(Llama3Scaling, OtherDivisorsAreRefused) {
  EXPECT_FALSE(llama3_scaling(std::vector<float>(32, 1.0f), 10000.0, {}, "x")->has_value());
  std::vector<float> divisors(32, 1.0f);
  divisors[3] = 5.0f;
  EXPECT_TRUE(
      io::fails_with(llama3_scaling(divisors, 10000.0, {}, "x"), {"x: expected", "Llama 3"}));
  for (const float impossible : {0.0f, 0.5f, -1.0f, NAN, INFINITY}) {
    divisors[3] = impossible;
    EXPECT_TRUE(io::fails_with(llama3_scaling(divisors, 10000.0, {}, "x"), {"from 1 to 1e9"}));
  }
}

}  // namespace
}  // namespace neuronmm::gguf
