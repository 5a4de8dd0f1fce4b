// This test compares linear layers and MLPs with pivots with naive fp64 code.

#include <cstring>
#include <numeric>
#include <random>

#include "cpu/error_bounds.h"
#include "cpu/on_every_target.h"
#include "ops/owned_tensor.h"
#include "ops/quantize.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kPivotsSeed = 23;

// How weights are stored: in a float dtype, or as I8 with their scales.
struct Storage {
  DType weights, maps;
};
std::string to_string(const Storage& storage) {
  return fmt::format("weights {}, maps {}", dtype_name(storage.weights), dtype_name(storage.maps));
}
constexpr Storage kStorages[] = {{DType::kBF16, DType::kBF16}, {DType::kF32, DType::kF32},
                                 {DType::kF16, DType::kF16},   {DType::kF64, DType::kF64},
                                 {DType::kI8, DType::kI8},     {DType::kBF16, DType::kF32},
                                 {DType::kI8, DType::kBF16},   {DType::kBF16, DType::kI8}};

// Makes random weights and owns the memory that they point to.
class PivotedWeights {
 public:
  explicit PivotedWeights(std::mt19937_64& random) : random_(random) {}

  ops::WeightView matrix(DType dtype, int64_t rows, int64_t columns) {
    const auto deviation = 1.0f / std::sqrt(static_cast<float>(columns));
    const std::vector<float> values = random_values(rows * columns, random_, deviation);
    if (dtype != DType::kI8) {
      return floats_
          .emplace_back(std::make_unique<OwnedTensor>(dtype, Shape{rows, columns}, values))
          ->view();
    }
    const OwnedTensor tensor(DType::kF32, {rows, columns}, values);
    return bytes_
        .emplace_back(std::make_unique<ops::QuantizedWeight>(ops::quantize(tensor.view())))
        ->view();
  }
  ops::Pivots pivots(DType dtype, int64_t features, int64_t rank, bool of_input) {
    std::vector<int32_t> all(static_cast<size_t>(features));
    std::iota(all.begin(), all.end(), 0);
    std::ranges::shuffle(all, random_);
    all.resize(static_cast<size_t>(rank));
    std::ranges::sort(all);
    const int64_t others = features - rank;
    return {all, of_input ? matrix(dtype, rank, others) : matrix(dtype, others, rank)};
  }
  // Returns a weight with `rank` pivots of the input or the output, or a dense one for rank 0.
  ops::LinearWeight linear(const Storage& storage, int64_t k, int64_t n, int64_t rank,
                           bool of_input) {
    ops::LinearWeight weight;
    if (rank == 0) {
      weight.w_t = matrix(storage.weights, n, k);
    } else if (of_input) {
      weight.w_t = matrix(storage.weights, n, rank);
      weight.in = pivots(storage.maps, k, rank, true);
    } else {
      weight.w_t = matrix(storage.weights, rank, k);
      weight.out = pivots(storage.maps, n, rank, false);
    }
    return weight;
  }
  // The ranks of the input that gate and up share, of gate, of up, and of down; 0 for none.
  struct Ranks {
    int64_t input, gate, up, down;
  };
  ops::MlpWeight mlp(const Storage& storage, int64_t h, int64_t i, const Ranks& ranks) {
    ops::MlpWeight weight;
    if (ranks.input > 0) weight.in = pivots(storage.maps, h, ranks.input, true);
    const int64_t width = ranks.input > 0 ? ranks.input : h;
    weight.gate = linear(storage, width, i, ranks.gate, true);
    weight.up = linear(storage, width, i, ranks.up, true);
    weight.down = linear(storage, i, h, ranks.down, false);
    return weight;
  }

 private:
  std::mt19937_64& random_;
  std::vector<std::unique_ptr<OwnedTensor>> floats_;
  std::vector<std::unique_ptr<ops::QuantizedWeight>> bytes_;
};

class Pivots : public OnEveryTarget {
 protected:
  void expect_right(const ops::LinearWeight& weight, int64_t m) {
    SCOPED_TRACE(fmt::format("seed {}, M {}, K {}, r {}, N {}, pivots of the {}", kPivotsSeed, m,
                             weight.in_features(), weight.rank(), weight.out_features(),
                             weight.in.empty() ? "output" : "input"));
    const Matrix x = random_matrix(m, weight.in_features(), random_);
    Matrix y(m, weight.out_features());
    backend_->make_linear(weight)->apply(x.view(), y.view());
    expect_within(multiply(Bounded(x.view()), weight), y.view());
  }
  void expect_right(const ops::MlpWeight& weight, int64_t m) {
    const Matrix x = random_matrix(m, weight.in_features(), random_);
    Matrix y(m, weight.down.out_features());
    backend_->make_mlp(weight)->apply(x.view(), y.view());
    expect_within(mlp(Bounded(x.view()), weight), y.view());
  }
  // Checks that `layer` gives the same bits on one thread, on several, and row by row.
  template <typename Layer>
  void expect_same_bits(const Layer& layer, int64_t m, int64_t in, int64_t out) {
    const Matrix x = random_matrix(m, in, random_);
    Matrix expected(m, out), y(m, out);
    set_num_threads(1);
    layer.apply(x.view(), expected.view());
    const size_t bytes = static_cast<size_t>(m * out) * sizeof(float);
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      layer.apply(x.view(), y.view());
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0) << threads << " threads";
    }
    for (int64_t row = 0; row < m; ++row) {
      layer.apply(x.view().row_range(row, 1), y.view().row_range(row, 1));
    }
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0) << "row by row";
  }

  std::mt19937_64 random_{kPivotsSeed};
  std::unique_ptr<ops::Backend> backend_ = make_backend(kernels_);
  PivotedWeights weights_{random_};
};
NMM_ON_EVERY_TARGET(Pivots);
NMM_WITH_EMULATED_AMX(Pivots);

TEST_P(Pivots, LinearOfEveryStorage) {
  for (const Storage& storage : kStorages) {
    SCOPED_TRACE(to_string(storage));
    for (const bool of_input : {true, false}) {
      for (const int64_t rank : {1, 31, 99}) {
        const auto weight = weights_.linear(storage, 100, 100, rank, of_input);
        for (const int64_t m : {0, 1, 2, 5, 13, 250}) expect_right(weight, m);
      }
    }
  }
}

// The sizes include two elements with one pivot, and lengths around those of vectors and of groups
// of scales.
TEST_P(Pivots, LinearOfRaggedSizes) {
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    for (const int64_t wide : {2, 3, 17, 33, 129, 300, 530}) {
      for (const int64_t rank : {int64_t{1}, wide / 2, wide - 1}) {
        for (const int64_t other_side : {1, 35, 140}) {
          for (const int64_t m : {1, 7}) {
            expect_right(weights_.linear({dtype, dtype}, wide, other_side, rank, true), m);
            expect_right(weights_.linear({dtype, dtype}, other_side, wide, rank, false), m);
          }
        }
      }
    }
  }
}

TEST_P(Pivots, EveryMixtureInAnMlp) {
  for (const Storage& storage : kStorages) {
    for (int mixture = 0; mixture < 16; ++mixture) {
      PivotedWeights::Ranks ranks = {mixture & 1 ? 29 : 0, mixture & 2 ? 17 : 0,
                                     mixture & 4 ? 40 : 0, mixture & 8 ? 12 : 0};
      if (ranks.input > 0 && (ranks.gate > 0 || ranks.up > 0)) continue;
      const ops::MlpWeight weight = weights_.mlp(storage, 45, 83, ranks);
      for (const int64_t m : {0, 1, 4, 13, 30}) {
        SCOPED_TRACE(fmt::format("seed {}, mixture {}, M {}, {}", kPivotsSeed, mixture, m,
                                 to_string(storage)));
        expect_right(weight, m);
      }
    }
  }
}

// The sizes need more than one block of rows and of the hidden width, and groups of scales that end
// inside.
TEST_P(Pivots, LargerMlps) {
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kI8}) {
    for (const PivotedWeights::Ranks& ranks :
         {PivotedWeights::Ranks{60, 0, 0, 50}, {0, 60, 40, 50}}) {
      const ops::MlpWeight weight = weights_.mlp({dtype, dtype}, 140, 1100, ranks);
      for (const int64_t m : {3, 245}) {
        SCOPED_TRACE(fmt::format("seed {}, {}, M {}", kPivotsSeed, dtype_name(dtype), m));
        expect_right(weight, m);
      }
    }
  }
}

// A backend's layers share their scratch memory: a wide layer must not leave anything to a narrow
// one.
TEST_P(Pivots, LayersOfDifferentFormsShareScratchMemory) {
  const Storage storage = {DType::kBF16, DType::kBF16};
  const auto wide = weights_.mlp(storage, 90, 310, {60, 0, 0, 50});
  const auto dense = weights_.mlp(storage, 90, 83, {0, 0, 0, 0});
  const auto own = weights_.mlp(storage, 90, 130, {0, 40, 20, 0});
  for (const ops::MlpWeight* weight : {&wide, &dense, &own, &wide, &own, &dense}) {
    for (const int64_t m : {14, 1}) expect_right(*weight, m);
  }
}

TEST_P(Pivots, BitsDependNeitherOnThreadsNorOnTheOtherRows) {
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    const Storage storage = {dtype, dtype};
    for (const bool of_input : {true, false}) {
      const auto weight = weights_.linear(storage, 530, 610, 300, of_input);
      expect_same_bits(*backend_->make_linear(weight), 61, 530, 610);
    }
    for (const PivotedWeights::Ranks& ranks :
         {PivotedWeights::Ranks{100, 0, 0, 90}, {0, 100, 40, 90}}) {
      expect_same_bits(*backend_->make_mlp(weights_.mlp(storage, 130, 1100, ranks)), 17, 130, 130);
    }
  }
}

}  // namespace
}  // namespace neuronmm::cpu
