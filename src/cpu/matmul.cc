#include "cpu/matmul.h"

#include <algorithm>

#include "cpu/tasks.h"

namespace neuronmm::cpu {
namespace {

// K is cut into blocks so that what a thread reads again stays in its second-level cache: of 4
// panels, 260 KiB (int8) or 512 KiB (bf16, fp32). Longer blocks pass over Y less often.
int64_t k_block(WeightType weights) { return weights == WeightType::kFp32 ? 1024 : 2048; }
constexpr int64_t kGroupPanels = 4;

// Panels are handed out in groups, smaller ones where few groups would leave a thread waiting for
// another that has just begun one.
int64_t group_panels(int64_t panels) {
  constexpr int64_t kGroupsPerThread = 8;
  int64_t group = kGroupPanels;
  while (group > 1 && panels < kGroupsPerThread * group * num_threads()) group /= 2;
  return group;
}

int64_t multiply_adds(const Product& p) { return p.a.rows * p.a.k * p.w->n(); }

}  // namespace

PackedRows pack_rows(const Kernels& kernels, ConstMatrixView x, WeightType weights,
                     Buffer<float>& storage) {
  PackedRows a = {.data = x.data,
                  .rows = x.rows,
                  .k = x.columns,
                  .k_block = k_block(weights),
                  .tiles = (x.rows + kernels.tile_rows - 1) / kernels.tile_rows};
  const bool int8 = weights == WeightType::kInt8;
  const bool bf16 =
      weights == WeightType::kBf16 && kernels.dot_products == DotProducts::kInt8AndBf16;
  if (x.rows == 1 && !int8 && !bf16) return a;
  const int64_t row_words = int8 ? a.int8_row_words() : bf16 ? a.bf16_row_words() : a.k;
  float* const packed = storage.reserve(a.rows * row_words);
  auto* const words = reinterpret_cast<int32_t*>(packed);
  for_each_task(a.tiles, a.rows * a.k, [&](int64_t tile) {
    const float* rows[kMaxTileRows];
    for (int64_t r = 0; r < a.tile_rows(tile); ++r) rows[r] = x.row(a.first_row(tile) + r);
    if (int8) {
      kernels.quantize_tile(a, tile, rows, words);
    } else if (bf16) {
      kernels.pack_bf16_tile(a, tile, rows, words);
    } else {
      kernels.pack_tile(a, tile, 1.0f, rows, packed);
    }
  });
  a.data = packed;
  a.words = words;
  return a;
}

void multiply(const Kernels& kernels, std::span<const Product> products) {
  int64_t panels = 0, work = 0;
  for (const Product& p : products) {
    panels += p.w->panels();
    work += multiply_adds(p);
  }
  const int64_t group = group_panels(panels);
  int64_t groups = 0;
  for (const Product& p : products) groups += (p.w->panels() + group - 1) / group;
  for_each_task(groups, work, [&](int64_t task) {
    const Product* p = products.data();
    int64_t first = task * group;
    for (; first >= p->w->panels(); ++p) first -= (p->w->panels() + group - 1) / group * group;
    const int64_t count = std::min(group, p->w->panels() - first);
    kernels.multiply(p->a, *p->w, first, count, p->bias, p->y);
  });
}

void multiply_gate_up(const Kernels& kernels, const Product& gate, const Product& up) {
  const int64_t n = up.w->n(), panels = up.w->panels(), group = group_panels(panels);
  const int64_t groups = (panels + group - 1) / group;
  for_each_task(groups, multiply_adds(gate) + multiply_adds(up), [&](int64_t task) {
    const int64_t first = task * group, count = std::min(group, panels - first);
    kernels.multiply(gate.a, *gate.w, first, count, gate.bias, gate.y);
    kernels.multiply(up.a, *up.w, first, count, up.bias, up.y);
    const int64_t column = first * kPanel, columns = std::min(count * kPanel, n - column);
    for (int64_t i = 0; i < up.y.rows; ++i) {
      kernels.silu_multiply(gate.y.row(i) + column, up.y.row(i) + column, columns);
    }
  });
}

}  // namespace neuronmm::cpu
