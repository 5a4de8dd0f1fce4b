#include "cpu/mixture.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "cpu/tasks.h"

namespace neuronmm::cpu {
namespace {

// The number of rows of all chosen experts together that are computed at once. With 8 active
// experts these are 576 tokens, whose packed inputs take 9 MiB in int8 and 37 MiB in fp32 at a
// hidden size of 2048. Many tokens let the weights be read less often.
constexpr int64_t kMostExpertRows = 4 * kMostBlockRows;

// Up to this many tokens, the chosen experts are few enough to stay in memory (ExpertCache). More
// tokens are a prompt. Assumed.
constexpr int64_t kFewTokens = 16;

// Returns the number of words rounded up to whole cache lines.
constexpr int64_t whole_lines(int64_t words) {
  constexpr int64_t kCacheLineWords = 16;
  return (words + kCacheLineWords - 1) / kCacheLineWords * kCacheLineWords;
}

// Rows of several matrices that are packed in one parallel loop.
class PackingList {
 public:
  explicit PackingList(const Kernels& kernels) : kernels_(kernels) {}

  // Adds the rows of x, or those that `indices` names if it is not empty. Returns their number in
  // this list. Rows that were added just before are not packed again: gate and up of an expert read
  // the same rows, and all experts of a single token do.
  size_t add(WeightType weights, ConstMatrixView x, std::span<const int32_t> indices = {}) {
    const int64_t rows = indices.empty() ? x.rows : std::ssize(indices);
    Entry entry = {RowPacker(kernels_, rows, x.columns, weights), weights, x, indices};
    if (entries_.empty() || !entries_.back().has_rows_of(entry)) entries_.push_back(entry);
    return entries_.size() - 1;
  }

  // Packs all rows into `storage`.
  void pack_all(Buffer<float>& storage) {
    int64_t words = 0, work = 0;
    std::vector<int64_t> offsets;
    std::vector<std::pair<const Entry*, int64_t>> tiles;
    for (const Entry& entry : entries_) {
      offsets.push_back(words);
      words += whole_lines(entry.packer.words());
      work += kPackWork * entry.packer.rows().rows * entry.x.columns;
      for (int64_t i = 0; i < entry.packer.rows().tiles; ++i) tiles.emplace_back(&entry, i);
    }
    float* const memory = storage.reserve(words);
    for (size_t i = 0; i < entries_.size(); ++i) entries_[i].packer.place(memory + offsets[i]);
    for_each_task(std::ssize(tiles), work, [&](int64_t i) {
      const auto& [entry, tile] = tiles[static_cast<size_t>(i)];
      entry->pack(tile);
    });
  }
  // Returns the packed rows of this number.
  const PackedRows& operator[](size_t i) const { return entries_[i].packer.rows(); }

 private:
  struct Entry {
    RowPacker packer;
    WeightType weights;
    ConstMatrixView x;
    std::span<const int32_t> indices;

    const float* row(int64_t i) const {
      return x.row(indices.empty() ? i : indices[static_cast<size_t>(i)]);
    }
    bool has_rows_of(const Entry& other) const {
      const int64_t rows = packer.rows().rows;
      return weights == other.weights && rows == other.packer.rows().rows &&
             row(0) == other.row(0) && (rows == 1 || indices.data() == other.indices.data());
    }
    void pack(int64_t tile) const {
      const PackedRows& a = packer.rows();
      const float* rows[kMaxTileRows];
      for (int64_t r = 0; r < a.tile_rows(tile); ++r) rows[r] = row(a.first_row(tile) + r);
      packer.pack(tile, {0, x.columns}, rows);
    }
  };

  const Kernels& kernels_;
  std::vector<Entry> entries_;
};

// An expert and the tokens of a block that have chosen it.
struct Chosen {
  int64_t number;  // in the cache of experts
  const PackedExpert* expert;
  std::span<const int32_t> rows;
  std::span<const float> factors;
};

// A projection of a chosen expert and its packed input.
struct Projection {
  const PackedLinear* linear;
  PackedRows input;
};

// Replaces the inputs of low-rank projections by their packed strips X·U. The strips of all experts
// are one parallel loop, and their packing is another.
void apply_first_factors(const Kernels& kernels, std::span<Projection> projections,
                         Buffer<float>& strips, Buffer<float>& packed_strips) {
  int64_t floats = 0;
  for (const auto& [linear, input] : projections) floats += input.rows * linear->strip_width();
  if (floats == 0) return;
  float* next = strips.reserve(floats);
  PackingList list(kernels);
  std::vector<Product> products;
  std::vector<std::pair<Projection*, size_t>> replaced;
  for (Projection& projection : projections) {
    const auto& [linear, input] = projection;
    if (!linear->has_strip()) continue;
    const MutableMatrixView strip(next, input.rows, linear->strip_width());
    next += strip.rows * strip.columns;
    products.push_back(linear->strip_product(input, strip));
    replaced.emplace_back(&projection, list.add(linear->last_type(), strip));
  }
  multiply(kernels, products);
  list.pack_all(packed_strips);
  for (const auto& [projection, number] : replaced) projection->input = list[number];
}

class CpuMixture : public ops::Mlp {
 public:
  CpuMixture(const Kernels& kernels, std::shared_ptr<LayerScratch> scratch,
             std::shared_ptr<ExpertCache> experts, const ops::Backend& backend,
             const ops::MixtureWeight& weight)
      : kernels_(kernels),
        scratch_(std::move(scratch)),
        cache_(std::move(experts)),
        router_(backend, weight),
        bases_(backend, weight),
        first_expert_(weight.first_expert),
        in_features_(weight.in_features()) {
    NMM_CHECK(first_expert_ >= 0 &&
              first_expert_ + std::ssize(weight.experts) <= router_.experts());
    for (const ops::MlpWeight& expert : weight.experts) {
      NMM_CHECK(expert.in_features() == weight.expert_in() &&
                expert.down.out_features() == weight.expert_out());
      experts_.push_back(cache_->add(expert));
    }
    const ops::MlpWeight first = weight.experts.empty() ? ops::MlpWeight() : weight.experts[0];
    gating_ = kernels.gating(first.activation, first.clamp);
  }

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    NMM_CHECK(x.rows == y.rows && x.columns == in_features_ && y.columns == in_features_);
    const int64_t most = std::max<int64_t>(kMostExpertRows / router_.active(), 1);
    const int64_t blocks = (x.rows + most - 1) / most;
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t first = x.rows * i / blocks, rows = x.rows * (i + 1) / blocks - first;
      apply_block(x.row_range(first, rows), y.row_range(first, rows));
    }
  }

 private:
  // The outputs are added in ascending order of experts, also if not all of them fit into memory at
  // once.
  void apply_block(ConstMatrixView x, MutableMatrixView y) const {
    const std::vector<ops::RoutedExpert> routed = router_.choose(x);
    const auto groups = ops::group_by_expert(routed, router_.active(), router_.experts());
    std::vector<Chosen> chosen = chosen_experts(groups);
    std::vector<int64_t> numbers;
    for (const Chosen& one : chosen) numbers.push_back(one.number);
    bases_.apply(x, y, [&](ConstMatrixView z, MutableMatrixView sum) {
      size_t first = 0;
      do {
        const size_t count = cache_->load(std::span(numbers).subspan(first), z.rows > kFewTokens);
        const auto loaded = std::span(chosen).subspan(first, count);
        for (Chosen& one : loaded) one.expert = &(*cache_)[one.number];
        add_outputs(loaded, z, sum, first > 0);
        first += count;
      } while (first < chosen.size());
    });
  }

  // Sets y to the weighted outputs of these experts, or adds them.
  void add_outputs(std::span<const Chosen> chosen, ConstMatrixView x, MutableMatrixView y,
                   bool add_to_y) const {
    LayerScratch& s = *scratch_;
    std::vector<Projection> gate_up = pack_inputs(chosen, x);
    apply_first_factors(kernels_, gate_up, s.strip, s.strip_rows);
    std::vector<Projection> down = apply_gate_up(chosen, gate_up);
    apply_first_factors(kernels_, down, s.strip, s.strip_rows);
    std::vector<WeightedProduct> products;
    for (size_t i = 0; i < chosen.size(); ++i) {
      products.push_back(
          {down[i].linear->output(down[i].input, {}), chosen[i].rows, chosen[i].factors});
    }
    add_weighted(kernels_, products, s.gate_up, y, add_to_y);
  }

  std::vector<Chosen> chosen_experts(const ops::ExpertGroups& groups) const {
    std::vector<Chosen> chosen;
    for (size_t i = 0; i < experts_.size(); ++i) {
      const int64_t expert = first_expert_ + static_cast<int64_t>(i);
      const auto count = static_cast<size_t>(groups.tokens_of(expert));
      const auto first = static_cast<size_t>(groups.first[static_cast<size_t>(expert)]);
      if (count == 0) continue;
      chosen.push_back({experts_[i], nullptr, std::span(groups.rows).subspan(first, count),
                        std::span(groups.weights).subspan(first, count)});
    }
    return chosen;
  }

  // Returns gate and up of each chosen expert, one after the other.
  std::vector<Projection> pack_inputs(std::span<const Chosen> chosen, ConstMatrixView x) const {
    PackingList inputs(kernels_);
    std::vector<std::pair<const PackedLinear*, size_t>> numbers;
    for (const Chosen& one : chosen) {
      for (const PackedLinear* const linear : {&one.expert->gate, &one.expert->up}) {
        numbers.emplace_back(linear, inputs.add(linear->first_type(), x, one.rows));
      }
    }
    inputs.pack_all(scratch_->rows);
    std::vector<Projection> projections;
    for (const auto& [linear, number] : numbers) projections.push_back({linear, inputs[number]});
    return projections;
  }

  // Returns down of each chosen expert with the packed hidden rows.
  std::vector<Projection> apply_gate_up(std::span<const Chosen> chosen,
                                        std::span<const Projection> gate_up) const {
    std::vector<RowPacker> hidden;
    int64_t words = 0;
    for (const Chosen& one : chosen) {
      const PackedLinear& down = one.expert->down;
      hidden.emplace_back(kernels_, std::ssize(one.rows), down.in_features(), down.first_type());
      words += whole_lines(hidden.back().words());
    }
    float* next = scratch_->hidden_rows.reserve(words);
    std::vector<GateUp> mlps;
    std::vector<Projection> projections;
    for (size_t i = 0; i < chosen.size(); ++i) {
      hidden[i].place(std::exchange(next, next + whole_lines(hidden[i].words())));
      const auto& [gate, gate_rows] = gate_up[2 * i];
      const auto& [up, up_rows] = gate_up[2 * i + 1];
      mlps.push_back({gate->output(gate_rows, {}), up->output(up_rows, {}), &hidden[i]});
      projections.push_back({&chosen[i].expert->down, hidden[i].rows()});
    }
    multiply_gate_up(kernels_, mlps, gating_, scratch_->gate_up);
    return projections;
  }

  const Kernels& kernels_;
  std::shared_ptr<LayerScratch> scratch_;
  std::shared_ptr<ExpertCache> cache_;
  const ops::Router router_;
  const ops::SharedBases bases_;
  const int64_t first_expert_, in_features_;
  std::vector<int64_t> experts_;  // their numbers in the cache
  Gating gating_;
};

bool is_plain(const ops::MlpWeight& weight, const ops::MlpWeight& first) {
  return weight.in.empty() && !weight.gate.pivoted() && !weight.up.pivoted() &&
         !weight.down.pivoted() && weight.activation == first.activation &&
         weight.clamp == first.clamp;
}

}  // namespace

bool runs_together(const ops::MixtureWeight& weight) {
  return std::ranges::all_of(weight.experts, [&](const ops::MlpWeight& expert) {
    return is_plain(expert, weight.experts.front());
  });
}

std::unique_ptr<ops::Mlp> make_mixture(const Kernels& kernels,
                                       std::shared_ptr<LayerScratch> scratch,
                                       std::shared_ptr<ExpertCache> experts,
                                       const ops::Backend& backend,
                                       const ops::MixtureWeight& weight) {
  return std::make_unique<CpuMixture>(kernels, std::move(scratch), std::move(experts), backend,
                                      weight);
}

}  // namespace neuronmm::cpu
