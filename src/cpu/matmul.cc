#include "cpu/matmul.h"

#include <algorithm>
#include <vector>

#include "cpu/tasks.h"

namespace neuronmm::cpu {
namespace {

// Returns how much of K is multiplied before the next tile of rows. The part of the weights that a
// thread reads again must stay in its second-level cache. For 4 panels it takes 260 KiB in int8, to
// which int6 and int4 are expanded, or 512 KiB in bf16 and fp32. Longer blocks would pass over Y
// less often. With AMX the rows stay there instead: 256 of them take 1 MiB.
int64_t k_block(const Kernels& kernels, WeightType weights) {
  if (rows_for(weights) == WeightType::kFp32) return 1024;
  return kernels.amx && rows_for(weights) == WeightType::kInt8 ? 4096 : 2048;
}
constexpr int64_t kGroupPanels = 4;

// Returns how many panels a task takes. The groups are smaller if few groups would leave a thread
// waiting for another that has just begun one.
int64_t group_panels(int64_t panels) {
  constexpr int64_t kGroupsPerThread = 8;
  int64_t group = kGroupPanels;
  while (group > 1 && panels < kGroupsPerThread * group * num_threads()) group /= 2;
  return group;
}

// Returns the work in the unit of for_each_task, which decides whether a loop is worth several
// threads.
int64_t multiply_adds(const Product& p) { return p.a.rows * p.a.k * p.w->n(); }

// Returns into how many shares the rows of products are divided, in addition to the panels of the
// weights. With many rows each thread has rows of its own, which stay in its caches from one
// product to the next. It then reads all weights, for at least kLeastRows rows. kLeastRows is
// assumed; docs/measurements/cpu_speed.md has measurements on an Intel CPU with AMX, where shares
// gain most.
int64_t row_shares(int64_t rows) {
  constexpr int64_t kLeastRows = 128;
  return std::clamp<int64_t>(rows / kLeastRows, 1, num_threads());
}

// Returns the first tile of a share of the rows, and the first tile after it.
std::pair<int64_t, int64_t> tiles_of_share(const PackedRows& a, int64_t share, int64_t shares) {
  return {a.tiles * share / shares, a.tiles * (share + 1) / shares};
}

// The steps in which silu(gate) * up is made, a few tiles of rows at a time. With 96 rows the sums
// take 96 KiB and stay in the second-level cache together with the panels of weights. With AMX each
// piece of weights is prepared once for all rows of a step, so a step takes them all. CPUs with AMX
// have 2 MiB of that cache. If gate, up and hidden have different tiles, all rows are one step.
class RowSteps {
 public:
  RowSteps(const Kernels& kernels, const PackedRows& gate, const PackedRows& up,
           const PackedRows& hidden)
      : alike_(cut_alike(gate, up) && cut_alike(up, hidden)),
        shares_(alike_ ? row_shares(up.rows) : 1),
        rows_(!alike_       ? up.rows
              : kernels.amx ? kRowBlock
                            : kRowsAtOnce),
        tiles_(alike_ ? rows_ / up.highest_tile() : up.tiles) {}

  int64_t shares() const { return shares_; }
  int64_t rows() const { return rows_; }  // the largest number of rows of a step
  // Returns the tile after the step that begins with tile `first` of the tiles up to `end`. The
  // steps are nearly equal: rows that AMX multiplies in pieces must not leave a step of fewer than
  // kTilesOfPieces tiles.
  int64_t end_of_step(int64_t first, int64_t end) const {
    const int64_t steps = (end - first + tiles_ - 1) / tiles_;
    return first + (end - first + steps - 1) / steps;
  }
  // Returns the part of one step in the tiles of `a`. The step begins with tile `first` and ends
  // before tile `end`, which are tiles of up.
  ProductPart of(const PackedRows& a, int64_t first, int64_t end, ProductPart part) const {
    part.first_tile = alike_ ? first : 0;
    part.tiles = alike_ ? end - first : a.tiles;
    return part;
  }

 private:
  static constexpr int64_t kRowsAtOnce = 96;
  static_assert(kRowsAtOnce >= kMaxTileRows);
  static bool cut_alike(const PackedRows& a, const PackedRows& b) {
    return a.tiles == b.tiles && a.unit == b.unit;
  }

  bool alike_;
  int64_t shares_, rows_, tiles_;
};

constexpr int64_t kGroupColumns = kGroupPanels * kPanel;
static_assert(kGroupColumns % kQuantGroup == 0, "a thread quantizes whole groups");

}  // namespace

RowPacker::RowPacker(const Kernels& kernels, int64_t rows, int64_t k, WeightType weights,
                     Buffer<float>& storage)
    : RowPacker(kernels, rows, k, weights) {
  place(storage.reserve(words_));
}

RowPacker::RowPacker(const Kernels& kernels, int64_t rows, int64_t k, WeightType weights)
    : kernels_(kernels),
      rows_{.rows = rows, .k = k, .k_block = k_block(kernels, weights)},
      int8_(rows_for(weights) == WeightType::kInt8),
      bf16_(weights == WeightType::kBf16 && kernels.dot_products == DotProducts::kInt8AndBf16) {
  const int64_t most = int8_   ? kernels.int8_tile_rows
                       : bf16_ ? kernels.bf16_tile_rows
                               : kernels.tile_rows;
  rows_.tiles = (rows + most - 1) / most;
  if (int8_ || bf16_) rows_.unit = kernels.row_unit();
  const int64_t row_words = int8_   ? rows_.int8_row_words()
                            : bf16_ ? rows_.bf16_row_words()
                                    : rows_.k;
  // The memory holds whole rows in the layout of the weights' type; an fp32 and a word have the
  // same size.
  words_ = rows * row_words + (kernels.amx ? kTilePadding : kRowPadding);
}

void RowPacker::place(float* memory) {
  packed_ = memory;
  rows_.data = packed_;
  rows_.words = reinterpret_cast<const int32_t*>(packed_);
}

void RowPacker::pack(int64_t tile, const ColumnRange& columns, const float* const* rows) const {
  auto* const words = reinterpret_cast<int32_t*>(packed_);
  if (int8_) {
    kernels_.quantize_tile(rows_, tile, columns, rows, words);
  } else if (bf16_) {
    kernels_.pack_bf16_tile(rows_, tile, columns, rows, words);
  } else {
    kernels_.pack_tile(rows_, tile, columns, rows, packed_);
  }
}

void RowPacker::pack(int64_t first_tile, int64_t tiles, int64_t first_column,
                     ConstMatrixView x) const {
  for (int64_t tile = first_tile; tile < first_tile + tiles; ++tile) {
    const float* rows[kMaxTileRows];
    for (int64_t r = 0; r < rows_.tile_rows(tile); ++r) {
      rows[r] = x.row(rows_.first_row(tile) - rows_.first_row(first_tile) + r);
    }
    pack(tile, {first_column, x.columns}, rows);
  }
}

// If there are fewer tiles than threads, the columns are divided, too.
void RowPacker::pack_all(ConstMatrixView x) const {
  const PackedRows& a = rows_;
  const int64_t groups = (a.k + kQuantGroup - 1) / kQuantGroup;
  const int64_t parts = std::clamp<int64_t>(2 * num_threads() / std::max<int64_t>(a.tiles, 1), 1,
                                            std::max<int64_t>(groups, 1));
  for_each_task(a.tiles * parts, kPackWork * a.rows * a.k, [&](int64_t task) {
    const int64_t tile = task / parts, part = task % parts;
    const int64_t first = groups * part / parts * kQuantGroup;
    const int64_t end = std::min(a.k, groups * (part + 1) / parts * kQuantGroup);
    pack(tile, 1, first,
         {x.row(a.first_row(tile)) + first, a.tile_rows(tile), end - first, x.stride});
  });
}

PackedRows pack_rows(const Kernels& kernels, ConstMatrixView x, WeightType weights,
                     Buffer<float>& storage) {
  const RowPacker packer(kernels, x.rows, x.columns, weights, storage);
  PackedRows a = packer.rows();
  // A single row of fp32 is its own packing.
  if (x.rows == 1 && packer.is_fp32()) {
    a.data = x.data;
    return a;
  }
  packer.pack_all(x);
  return a;
}

// Computes one block of K of products, or all of it. For each share of the rows, the panels of all
// products are numbered consecutively in groups, so that one loop covers them all. A group belongs
// to one product, so each product's last group may be smaller.
void multiply_block(const Kernels& kernels, std::span<const Product> products, int64_t shares,
                    int64_t first_k, int64_t most_k) {
  int64_t panels = 0, work = 0;
  for (const Product& p : products) {
    panels += p.w->panels();
    work += multiply_adds(p);
  }
  const int64_t group = group_panels(panels * shares);
  int64_t groups = 0;
  for (const Product& p : products) groups += (p.w->panels() + group - 1) / group;
  for_each_task(shares * groups, work, [&](int64_t task) {
    // The task's number gives its rows, its product and its first panel there.
    const Product* p = products.data();
    int64_t first = task % groups * group;
    for (; first >= p->w->panels(); ++p) first -= (p->w->panels() + group - 1) / group * group;
    const auto [tile, end] = tiles_of_share(p->a, task / groups, shares);
    const int64_t row = p->a.first_row(tile), rows = p->a.first_row(end) - row;
    const int64_t count = std::min(group, p->w->panels() - first);
    const int64_t column = first * kPanel;
    const MutableMatrixView y(p->y.row(row) + column, rows,
                              std::min(count * kPanel, p->y.columns - column), p->y.stride);
    kernels.multiply(p->a, *p->w,
                     {.first_tile = tile,
                      .tiles = end - tile,
                      .first_panel = first,
                      .panels = count,
                      .add_to_y = p->add_to_y || first_k > 0,
                      .first_k = first_k,
                      .most_k = most_k},
                     first_k == 0 ? p->bias : nullptr, y);
  });
}

// With AMX and many rows, one block of K after the other is multiplied with all panels, so that the
// rows of a block stay in the second-level cache.
void multiply(const Kernels& kernels, std::span<const Product> products) {
  if (products.empty()) return;
  int64_t shares = num_threads();
  for (const Product& p : products) shares = std::min(shares, row_shares(p.a.rows));
  const PackedRows& a = products.front().a;
  const bool alike = std::ranges::all_of(
      products, [&](const Product& p) { return p.a.k == a.k && p.a.k_block == a.k_block; });
  constexpr int64_t kManyRows = 64;
  if (!kernels.amx || a.rows < kManyRows || a.k <= a.k_block || !alike) {
    return multiply_block(kernels, products, shares, 0, 0);
  }
  for (int64_t first_k = 0; first_k < a.k; first_k += a.k_block) {
    multiply_block(kernels, products, shares, first_k, a.k_block);
  }
}

namespace {

// Packs gated(gates, ups), one tile of rows after the other, while it is in the first-level
// cache.
void pack_gated(const Gating& gating, MutableMatrixView gates, MutableMatrixView ups,
                const ProductPart& part, int64_t column, const RowPacker& hidden) {
  int64_t first = 0;
  for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
    const int64_t rows = hidden.rows().tile_rows(tile);
    for (int64_t i = first; i < first + rows; ++i) {
      gating(gates.row(i), ups.row(i), ups.columns);
    }
    hidden.pack(tile, 1, column, ups.row_range(first, rows));
    first += rows;
  }
}

// The tasks of gate and up of several MLPs. An MLP's tasks are groups of panels for each share of
// its rows.
class GateUpTasks {
 public:
  GateUpTasks(const Kernels& kernels, std::span<const GateUp> mlps, const Gating& gating)
      : kernels_(kernels), mlps_(mlps), gating_(gating) {
    int64_t all_panels = 0;
    for (const GateUp& mlp : mlps) {
      const RowSteps steps(kernels, mlp.gate.a, mlp.up.a, mlp.hidden->rows());
      plans_.push_back({.steps = steps});
      all_panels += mlp.up.w->panels() * steps.shares();
      most_rows_ = std::max(most_rows_, steps.rows());
      work_ += multiply_adds(mlp.gate) + multiply_adds(mlp.up);
    }
    for (size_t i = 0; i < mlps.size(); ++i) {
      Plan& plan = plans_[i];
      // Hidden columns are quantized in groups of 128 with a scale each, and two threads must not
      // share a group.
      plan.group = mlps[i].hidden->is_int8() ? kGroupPanels : group_panels(all_panels);
      plan.groups = (mlps[i].up.w->panels() + plan.group - 1) / plan.group;
      plan.first = count_;
      count_ += plan.steps.shares() * plan.groups;
    }
  }

  int64_t count() const { return count_; }
  int64_t work() const { return work_; }
  // The number of floats that a thread needs.
  int64_t own_floats() const { return 2 * most_rows_ * kGroupColumns; }
  void run(int64_t task, float* own) const {
    const auto after = std::ranges::upper_bound(plans_, task, {}, &Plan::first);
    const auto index = static_cast<size_t>(after - plans_.begin()) - 1;
    run(mlps_[index], plans_[index], task - plans_[index].first, own);
  }

 private:
  struct Plan {
    RowSteps steps;
    int64_t group = 0, groups = 0;  // the panels of a group, and the number of groups
    int64_t first = 0;              // the number of its first task
  };

  void run(const GateUp& mlp, const Plan& plan, int64_t task, float* own) const {
    const auto& [gate, up, hidden] = mlp;
    const RowSteps& steps = plan.steps;
    ProductPart part = {.first_panel = task % plan.groups * plan.group};
    part.panels = std::min(plan.group, up.w->panels() - part.first_panel);
    const int64_t column = part.first_panel * kPanel;
    const int64_t columns = std::min(part.panels * kPanel, up.w->n() - column);
    const auto [first, end] = tiles_of_share(up.a, task / plan.groups, steps.shares());
    for (int64_t tile = first, next = first; tile < end; tile = next) {
      next = steps.end_of_step(tile, end);
      const ProductPart of_up = steps.of(up.a, tile, next, part);
      const int64_t rows = up.a.first_row(of_up.first_tile + of_up.tiles) - up.a.first_row(tile);
      const MutableMatrixView gates(own, rows, columns, kGroupColumns);
      const MutableMatrixView ups(own + most_rows_ * kGroupColumns, rows, columns, kGroupColumns);
      kernels_.multiply(gate.a, *gate.w, steps.of(gate.a, tile, next, part), gate.bias, gates);
      kernels_.multiply(up.a, *up.w, of_up, up.bias, ups);
      const ProductPart packed = steps.of(hidden->rows(), tile, next, part);
      pack_gated(gating_, gates, ups, packed, column, *hidden);
    }
  }

  const Kernels& kernels_;
  const std::span<const GateUp> mlps_;
  const Gating& gating_;
  std::vector<Plan> plans_;
  int64_t count_ = 0, work_ = 0, most_rows_ = 0;
};

// The variant for more threads than groups of panels: every panel is a task, and the hidden rows
// are packed when all of them are there.
void multiply_gate_up_by_panels(const Kernels& kernels, const GateUp& mlp, const Gating& gating,
                                Buffer<float>& scratch) {
  const auto& [gate, up, hidden] = mlp;
  const int64_t rows = up.a.rows, n = up.w->n(), width = up.w->panels() * kPanel;
  float* const sums = scratch.reserve(2 * rows * width);
  const MutableMatrixView gates(sums, rows, n, width), ups(sums + rows * width, rows, n, width);
  const auto part_of = [](const PackedRows& a, int64_t panel) {
    return ProductPart{.first_tile = 0, .tiles = a.tiles, .first_panel = panel, .panels = 1};
  };
  const auto multiply_panel = [&, gate = gate, up = up](int64_t panel) {
    const int64_t column = panel * kPanel, columns = std::min(kPanel, n - column);
    const auto at = [&](const MutableMatrixView& all) {
      return MutableMatrixView(all.data + column, rows, columns, width);
    };
    kernels.multiply(gate.a, *gate.w, part_of(gate.a, panel), gate.bias, at(gates));
    kernels.multiply(up.a, *up.w, part_of(up.a, panel), up.bias, at(ups));
    for (int64_t i = 0; i < rows; ++i) {
      gating(gates.row(i) + column, ups.row(i) + column, columns);
    }
  };
  for_each_task(up.w->panels(), multiply_adds(gate) + multiply_adds(up), multiply_panel);
  hidden->pack_all(ups);
}

}  // namespace

void multiply_gate_up(const Kernels& kernels, std::span<const GateUp> mlps, const Gating& gating,
                      Buffer<float>& scratch) {
  const GateUpTasks tasks(kernels, mlps, gating);
  if (tasks.count() < num_threads()) {
    for (const GateUp& mlp : mlps) multiply_gate_up_by_panels(kernels, mlp, gating, scratch);
    return;
  }
  float* const sums = scratch.reserve(tasks.own_floats() * num_threads());
  for_each_task(tasks.count(), tasks.work(), [&](int64_t task, int thread) {
    tasks.run(task, sums + tasks.own_floats() * thread);
  });
}

namespace {

// Adds the weighted rows of one product to `y`, which has the columns of the panels of `part`. Some
// tiles of rows at a time pass through `own`.
void add_weighted_rows(const Kernels& kernels, const WeightedProduct& weighted, ProductPart part,
                       float* own, MutableMatrixView y) {
  const auto& [product, rows, factors] = weighted;
  const PackedRows& a = product.a;
  const RowSteps steps(kernels, a, a, a);
  for (int64_t tile = 0, next = 0; tile < a.tiles; tile = next) {
    next = steps.end_of_step(tile, a.tiles);
    const ProductPart of_step = steps.of(a, tile, next, part);
    const int64_t first = a.first_row(tile), end = a.first_row(next);
    const MutableMatrixView out(own, end - first, y.columns, kGroupColumns);
    kernels.multiply(a, *product.w, of_step, product.bias, out);
    for (int64_t i = first; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      kernels.scale(factors[at], out.row(i - first), y.columns);
      kernels.add(out.row(i - first), y.row(rows[at]), y.columns);
    }
  }
}

}  // namespace

// A task has some columns of y and all products, so that the sums of a column have one order.
void add_weighted(const Kernels& kernels, std::span<const WeightedProduct> products,
                  Buffer<float>& scratch, MutableMatrixView y, bool add_to_y) {
  const int64_t panels = (y.columns + kPanel - 1) / kPanel, group = group_panels(panels);
  int64_t work = 0, most_rows = 0;
  for (const auto& [product, rows, factors] : products) {
    work += multiply_adds(product);
    most_rows = std::max(most_rows, RowSteps(kernels, product.a, product.a, product.a).rows());
  }
  const int64_t own_floats = most_rows * kGroupColumns;
  float* const outputs = scratch.reserve(own_floats * num_threads());
  for_each_task((panels + group - 1) / group, work, [&](int64_t task, int thread) {
    ProductPart part = {.first_panel = task * group};
    part.panels = std::min(group, panels - part.first_panel);
    const int64_t column = part.first_panel * kPanel;
    const int64_t columns = std::min(part.panels * kPanel, y.columns - column);
    const MutableMatrixView own_y(y.data + column, y.rows, columns, y.stride);
    for (int64_t i = 0; i < y.rows && !add_to_y; ++i) std::fill_n(own_y.row(i), columns, 0.0f);
    for (const WeightedProduct& product : products) {
      add_weighted_rows(kernels, product, part, outputs + own_floats * thread, own_y);
    }
  });
}

}  // namespace neuronmm::cpu
