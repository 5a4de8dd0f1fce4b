#include "compress/rounding/rounding_gram.h"

#include <algorithm>
#include <numeric>

#include "base/parallel.h"

namespace neuronmm::compress {
namespace {

// The damping that is added to the diagonal, as a fraction of its mean. It keeps errors of a few
// columns from being spread over all others, and makes the Gram matrix of few tokens positive
// definite. The value is that of the GPTQ paper (documented). Damping each entry by a hundredth of
// itself instead makes no difference on SmolLM2 with 4-bit weights (measured).
constexpr double kDamping = 0.01;

// Returns the indices in the order of falling values. The most expensive columns are rounded first,
// and the others compensate their errors.
std::vector<int32_t> falling_order(const std::vector<float>& values) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  return order;
}

// Writes the upper triangular U with U·Uᵀ = A to `upper`, column-major, with columns that are
// `stride` apart. entry(i, j) is A[i, j] of the symmetric matrix A for i <= j. U comes from the
// Cholesky factor of A with rows and columns in reverse order.
template <typename Entry>
Status store_upper_root(int64_t size, int64_t stride, const Entry& entry, float* upper) {
  DoubleMatrix turned(size, size);
  parallel_for(size, [&](int64_t j) {
    for (int64_t i = j; i < size; ++i) turned(i, j) = entry(size - 1 - i, size - 1 - j);
  });
  NMM_ASSIGN(turned, cholesky(std::move(turned)));
  parallel_for(size, [&](int64_t j) {
    for (int64_t i = 0; i <= j; ++i) {
      upper[j * stride + i] = static_cast<float>(turned(size - 1 - i, size - 1 - j));
    }
  });
  return {};
}

Status check_gram(const DoubleMatrix& gram) {
  NMM_CHECK(gram.rows() == gram.columns());
  if (!gram.all_finite()) return fail("expected a finite Gram matrix, found NaN or infinity");
  for (int64_t i = 0; i < gram.rows(); ++i) {
    if (gram(i, i) >= 0) continue;
    return fail("expected a Gram matrix, found {} on its diagonal in row {}", gram(i, i), i);
  }
  return {};
}

}  // namespace

Result<RoundingGram> RoundingGram::prepare(const DoubleMatrix& gram) {
  NMM_TRY(check_gram(gram));
  const int64_t size = gram.columns();
  const std::vector<double> own = compress::diagonal(gram);
  const double sum = std::accumulate(own.begin(), own.end(), 0.0);
  // If the text leaves the input 0, all columns count the same.
  const double mean = sum > 0 ? sum / static_cast<double>(size) : 1.0;
  const auto entry = [&](int64_t i, int64_t j) {
    const double value = (i >= j ? gram(i, j) : gram(j, i)) / mean;
    return i == j ? value + kDamping : value;
  };
  RoundingGram out;
  out.columns = size;
  for (int64_t i = 0; i < size; ++i) out.diagonal.push_back(static_cast<float>(entry(i, i)));
  out.order = falling_order(out.diagonal);
  out.upper.resize(static_cast<size_t>(size * size));
  NMM_TRY(store_upper_root(
      size, size,
      [&](int64_t i, int64_t j) {
        return entry(out.order[static_cast<size_t>(i)], out.order[static_cast<size_t>(j)]);
      },
      out.upper.data()));
  out.h.resize(out.upper.size());
  parallel_for(size, [&](int64_t j) {
    for (int64_t i = 0; i < size; ++i) {
      out.h[static_cast<size_t>(j * size + i)] = static_cast<float>(entry(i, j));
    }
  });
  return out;
}

Result<std::vector<float>> RoundingGram::group_roots(int64_t group) const {
  std::vector<float> roots(static_cast<size_t>((columns + group - 1) / group * group * group));
  for (int64_t first = 0; first < columns; first += group) {
    const int64_t count = std::min(group, columns - first);
    NMM_TRY(store_upper_root(
        count, group,
        [&](int64_t i, int64_t j) {
          return double{h[static_cast<size_t>((first + j) * columns + first + i)]};
        },
        roots.data() + first * group));
  }
  return roots;
}

}  // namespace neuronmm::compress
