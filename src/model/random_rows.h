#pragma once
// Rows of rounded weights for models with random weights. Rounding billions of weights takes longer
// than writing them, so each row of a matrix is one of few rounded rows, chosen at random.

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "base/low_bit_format.h"
#include "ops/quantize.h"

namespace neuronmm::model {

// SplitMix64 (Steele, Lea, Flood 2014) as a function of the position in its stream: word i of
// stream `key` is split_mix(key + (i + 1) * kSplitMixStep).
inline constexpr uint64_t kSplitMixStep = 0x9E3779B97F4A7C15;
constexpr uint64_t split_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// The three tensors of a rounded weight (io/quantization.h).
enum class StoredPart { kValues, kScales, kGroups };

class RandomRows {
 public:
  // Writes `count` random weights in fp32. `stream` tells apart streams of random numbers.
  using Fill = std::function<void(uint64_t stream, int64_t count, float* out)>;

  explicit RandomRows(Fill fill) : fill_(std::move(fill)) {}

  // Appends a part of rows [first, first + count) of a weight to `out`. The rows depend on `key`,
  // which is the same for the three parts of a weight, and on their numbers.
  void append(uint64_t key, int64_t first, int64_t count, int64_t columns,
              const LowBitFormat& format, StoredPart part, std::vector<std::byte>& out);

 private:
  const ops::QuantizedWeight& rows_of(int64_t columns, const LowBitFormat& format);

  Fill fill_;
  std::map<std::tuple<int64_t, int, int>, ops::QuantizedWeight> rows_;
};

}  // namespace neuronmm::model
