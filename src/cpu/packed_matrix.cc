#include "cpu/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/parallel.h"

namespace neuronmm::cpu {
namespace {

// Elements of one checkpoint row that are moved at a time: 32 rows x 64 x 4 bytes of the panel stay
// in the first-level cache while they are written column by column.
constexpr int64_t kChunk = 64;

// Calls visit(panel, column in panel, first k, count) for all of W, panels in parallel.
template <typename Visit>
void for_each_chunk(int64_t k, int64_t n, const Visit& visit) {
  parallel_for((n + kPanel - 1) / kPanel, [&](int64_t panel) {
    const int64_t columns = std::min(kPanel, n - panel * kPanel);
    for (int64_t first = 0; first < k; first += kChunk) {
      for (int64_t column = 0; column < columns; ++column) {
        visit(panel, column, first, std::min(kChunk, k - first));
      }
    }
  });
}

}  // namespace

PackedMatrix::PackedMatrix(const TensorView& w_t)
    : k_(w_t.columns()), n_(w_t.rows()), is_bf16_(w_t.dtype == DType::kBF16) {
  if (is_bf16_) {
    pack_bf16(w_t);
  } else {
    pack_fp32(w_t);
  }
}

void PackedMatrix::pack_bf16(const TensorView& w_t) {
  bf16_ = Buffer<uint32_t>(panels() * panel_words(), Pages::kHuge);
  if (n_ % kPanel != 0) {
    std::fill_n(bf16_.data() + (panels() - 1) * panel_words(), panel_words(), 0u);
  }
  const auto* source = reinterpret_cast<const unsigned char*>(w_t.data);
  auto* packed = reinterpret_cast<unsigned char*>(bf16_.data());
  for_each_chunk(k_, n_, [&](int64_t panel, int64_t column, int64_t first, int64_t count) {
    const int64_t slot = column < kHalfPanel ? 2 * column : 2 * (column - kHalfPanel) + 1;
    const unsigned char* from = source + ((panel * kPanel + column) * k_ + first) * 2;
    unsigned char* to = packed + ((panel * k_ + first) * kPanel + slot) * 2;
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * kPanel * 2, from + i * 2, 2);
  });
}

void PackedMatrix::pack_fp32(const TensorView& w_t) {
  fp32_ = Buffer<float>(panels() * panel_words(), Pages::kHuge);
  if (n_ % kPanel != 0) {
    std::fill_n(fp32_.data() + (panels() - 1) * panel_words(), panel_words(), 0.0f);
  }
  for_each_chunk(k_, n_, [&](int64_t panel, int64_t column, int64_t first, int64_t count) {
    std::array<float, kChunk> values;
    to_floats(w_t, (panel * kPanel + column) * k_ + first, count, values.data());
    float* to = fp32_.data() + (panel * k_ + first) * kPanel + column;
    for (int64_t i = 0; i < count; ++i) to[i * kPanel] = values[static_cast<size_t>(i)];
  });
}

}  // namespace neuronmm::cpu
