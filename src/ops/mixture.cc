#include "ops/mixture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/scratch_matrix.h"
#include "ops/backend.h"

namespace neuronmm::ops {
namespace {

using Scored = std::pair<float, int32_t>;

// The order of torch.topk. It ignores the index.
bool is_larger(const Scored& a, const Scored& b) {
  return (std::isnan(a.first) && !std::isnan(b.first)) || a.first > b.first;
}

// Moves the k largest elements to the front, and chooses among equal ones as torch.topk does. That
// it sorts them afterwards does not matter here.
void select_largest(std::vector<Scored>& scored, int64_t k) {
  constexpr int64_t kSortBelow = 64;  // documented: ATen/native/TopKImpl.h
  if (k * kSortBelow <= std::ssize(scored)) {
    std::partial_sort(scored.begin(), scored.begin() + k, scored.end(), is_larger);
  } else {
    std::nth_element(scored.begin(), scored.begin() + (k - 1), scored.end(), is_larger);
  }
}

void route_row(const float* logits, int64_t count, bool divided, std::vector<Scored>& scored,
               std::span<RoutedExpert> routed) {
  for (int64_t e = 0; e < count; ++e) {
    scored[static_cast<size_t>(e)] = {logits[e], static_cast<int32_t>(e)};
  }
  const float largest = *std::max_element(logits, logits + count);
  float total = 0.0f;
  for (int64_t e = 0; !divided && e < count; ++e) total += std::exp(logits[e] - largest);
  select_largest(scored, std::ssize(routed));
  for (size_t i = 0; i < routed.size(); ++i) {
    const float power = std::exp(scored[i].first - largest);
    routed[i] = {scored[i].second, power};
    if (divided) total += power;
  }
  for (RoutedExpert& chosen : routed) chosen.weight /= total;
  std::ranges::sort(routed, {}, &RoutedExpert::expert);
}

class ComposedMixture : public Mlp {
 public:
  ComposedMixture(const Backend& backend, const MixtureWeight& weight)
      : router_(backend, weight), bases_(backend, weight), first_expert_(weight.first_expert) {
    NMM_CHECK(first_expert_ >= 0 &&
              first_expert_ + std::ssize(weight.experts) <= router_.experts());
    for (const MlpWeight& expert : weight.experts) experts_.push_back(backend.make_mlp(expert));
  }

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    const std::vector<RoutedExpert> routed = router_.choose(x);
    const ExpertGroups groups = group_by_expert(routed, router_.active(), router_.experts());
    bases_.apply(x, y, [&](ConstMatrixView z, MutableMatrixView sum) {
      for (int64_t i = 0; i < sum.rows; ++i) std::fill_n(sum.row(i), sum.columns, 0.0f);
      for (int64_t i = 0; i < std::ssize(experts_); ++i) add_expert(i, groups, z, sum);
    });
  }

 private:
  // Adds the weighted outputs of one expert for the tokens that have chosen it.
  void add_expert(int64_t index, const ExpertGroups& groups, ConstMatrixView x,
                  MutableMatrixView y) const {
    const int64_t expert = first_expert_ + index, count = groups.tokens_of(expert);
    if (count == 0) return;
    const auto first = static_cast<size_t>(groups.first[static_cast<size_t>(expert)]);
    const ScratchMatrix inputs(count, x.columns), outputs(count, y.columns);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(x.row(groups.rows[first + static_cast<size_t>(i)]), x.columns,
                  inputs.view().row(i));
    }
    experts_[static_cast<size_t>(index)]->apply(inputs.view(), outputs.view());
    for (int64_t i = 0; i < count; ++i) {
      const size_t at = first + static_cast<size_t>(i);
      const float* const from = outputs.view().row(i);
      float* const to = y.row(groups.rows[at]);
      for (int64_t j = 0; j < y.columns; ++j) to[j] += groups.weights[at] * from[j];
    }
  }

  const Router router_;
  const SharedBases bases_;
  const int64_t first_expert_;
  std::vector<std::unique_ptr<Mlp>> experts_;
};

}  // namespace

void route(ConstMatrixView logits, int64_t active, bool divided, std::span<RoutedExpert> routed) {
  NMM_CHECK(active >= 1 && active <= logits.columns && std::ssize(routed) == logits.rows * active);
  std::vector<Scored> scored(static_cast<size_t>(logits.columns));
  for (int64_t i = 0; i < logits.rows; ++i) {
    route_row(logits.row(i), logits.columns, divided, scored,
              routed.subspan(static_cast<size_t>(i * active), static_cast<size_t>(active)));
  }
}

ExpertGroups group_by_expert(std::span<const RoutedExpert> routed, int64_t active,
                             int64_t experts) {
  ExpertGroups groups;
  groups.first.resize(static_cast<size_t>(experts) + 1);
  for (const RoutedExpert& chosen : routed) ++groups.first[static_cast<size_t>(chosen.expert) + 1];
  for (size_t e = 1; e < groups.first.size(); ++e) groups.first[e] += groups.first[e - 1];
  groups.rows.resize(routed.size());
  groups.weights.resize(routed.size());
  std::vector<int64_t> next(groups.first.begin(), groups.first.end() - 1);
  for (size_t i = 0; i < routed.size(); ++i) {
    const auto at = static_cast<size_t>(next[static_cast<size_t>(routed[i].expert)]++);
    groups.rows[at] = static_cast<int32_t>(static_cast<int64_t>(i) / active);
    groups.weights[at] = routed[i].weight;
  }
  return groups;
}

Router::Router(const Backend& backend, const MixtureWeight& weight)
    : active_(weight.active), experts_(weight.count()), divided_(weight.divided) {
  const WeightView& stored = weight.router.w_t;
  NMM_CHECK(!stored.empty() && !stored.quantized() && active_ >= 1 && active_ <= experts_);
  std::vector<float> row(static_cast<size_t>(stored.columns()));
  for (int64_t e = 0; e < experts_; ++e) {
    to_floats(TensorView(stored), e * stored.columns(), stored.columns(), row.data());
    append_rounded(DType::kF32, row.data(), stored.columns(), weight_);
  }
  const TensorView widened = {DType::kF32, stored.shape, weight_.data()};
  linear_ = backend.make_linear({.w_t = widened, .bias = weight.router.bias});
}

Router::~Router() = default;
Router::Router(Router&&) noexcept = default;

std::vector<RoutedExpert> Router::choose(ConstMatrixView x) const {
  const ScratchMatrix logits(x.rows, experts_);
  linear_->apply(x, logits.view());
  std::vector<RoutedExpert> routed(static_cast<size_t>(x.rows * active_));
  route(logits.view(), active_, divided_, routed);
  return routed;
}

SharedBases::SharedBases(const Backend& backend, const MixtureWeight& weight)
    : expert_in_(weight.expert_in()), expert_out_(weight.expert_out()) {
  if (!weight.input.w_t.empty()) input_ = backend.make_linear(weight.input);
  if (!weight.output.w_t.empty()) output_ = backend.make_linear(weight.output);
}

SharedBases::~SharedBases() = default;

void SharedBases::apply(ConstMatrixView x, MutableMatrixView y, const Experts& experts) const {
  const ScratchMatrix read(input_ ? x.rows : 0, expert_in_);
  const ScratchMatrix sum(output_ ? x.rows : 0, expert_out_);
  if (input_) input_->apply(x, read.view());
  experts(input_ ? ConstMatrixView(read.view()) : x, output_ ? sum.view() : y);
  if (output_) output_->apply(sum.view(), y);
}

std::unique_ptr<Mlp> compose_mixture(const Backend& backend, const MixtureWeight& weight) {
  return std::make_unique<ComposedMixture>(backend, weight);
}

}  // namespace neuronmm::ops
