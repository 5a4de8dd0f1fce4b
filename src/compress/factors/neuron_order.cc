#include "compress/factors/neuron_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace neuronmm::compress {
namespace {

// The number of neurons that are removed before P and G are updated by matrix products. Until then
// only their diagonals and the columns of removed neurons are kept up to date. Assumed: the
// products are wide enough to be fast.
constexpr int64_t kNeuronBlock = 64;

using Values = std::vector<double>;

void add_multiple(double factor, const double* x, Values& to) {
  for (size_t j = 0; j < to.size(); ++j) to[j] += factor * x[j];
}

// Removes a block of neurons one after the other. P and G stay as they were before the first
// removal.
class NeuronBlock {
 public:
  // `floor` has the inverses of C's diagonal. The other neurons can only reduce what is unknown of
  // a neuron, so P_ii is never less than 1 / C_ii except for rounding errors.
  NeuronBlock(const DoubleMatrix& inverse, const DoubleMatrix& squares, const Values& floor)
      : inverse_(inverse),
        squares_(squares),
        floor_(floor),
        p_(diagonal(inverse)),
        g_(diagonal(squares)),
        is_left_(p_.size(), true) {}

  void remove_cheapest() {
    const int32_t i = cheapest();
    const auto at = static_cast<size_t>(i);
    const Values squares = column(squares_, i);
    Values step = column(inverse_, i);
    const double pivot = std::max(step[at], floor_[at]);
    for (double& value : step) value /= pivot;
    step[at] = 1.0;
    for (size_t j = 0; j < step.size(); ++j) {
      p_[j] -= step[j] * step[j] * pivot;
      g_[j] += step[j] * (step[j] * squares[at] - 2.0 * squares[j]);
    }
    gone_.push_back(i);
    is_left_[at] = false;
    steps_.push_back(std::move(step));
  }

  const std::vector<int32_t>& gone() const { return gone_; }
  std::vector<int32_t> left() const {
    std::vector<int32_t> out;
    for (size_t j = 0; j < is_left_.size(); ++j) {
      if (is_left_[j]) out.push_back(static_cast<int32_t>(j));
    }
    return out;
  }

  // Returns P or G, `x`, for the neurons that are left. In the rows of neurons that are left (L),
  // the product of all steps has the identity for these neurons and -S for removed ones (R). The
  // result is therefore X_LL - S·X_RL - X_LR·Sᵀ + S·X_RR·Sᵀ = X_LL - S·Yᵀ - Y·Sᵀ with
  // Y = X_LR - S·X_RR / 2.
  DoubleMatrix reduced(const DoubleMatrix& x) const {
    const std::vector<int32_t> left = this->left();
    const DoubleMatrix s = all_steps().rows_at(left), of_gone = x.columns_at(gone_);
    DoubleMatrix y = of_gone.rows_at(left);
    add_product(-0.5, s, Transpose::kNo, of_gone.rows_at(gone_), Transpose::kNo, y);
    DoubleMatrix out = x.rows_at(left).columns_at(left);
    add_product(-1.0, s, Transpose::kNo, y, Transpose::kYes, out);
    add_product(-1.0, y, Transpose::kNo, s, Transpose::kYes, out);
    return out;
  }

 private:
  int32_t cheapest() const {
    int32_t best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (size_t j = 0; j < p_.size(); ++j) {
      if (!is_left_[j]) continue;
      const double loss = g_[j] / std::max(p_[j], floor_[j]);
      if (best >= 0 && !(loss < least)) continue;
      least = loss;
      best = static_cast<int32_t>(j);
    }
    return best;
  }

  // Returns column i of X after the removals so far, E·X·Eᵀe_i, where E is the product of all
  // steps. Eᵀe_i is e_i plus a multiple of e_g for each removed neuron g.
  Values column(const DoubleMatrix& x, int32_t i) const {
    Values out(x.column(i), x.column(i) + x.rows()), multiples(gone_.size());
    for (size_t t = gone_.size(); t-- > 0;) {
      multiples[t] = -steps_[t][static_cast<size_t>(i)];
      for (size_t later = t + 1; later < gone_.size(); ++later) {
        multiples[t] -= steps_[t][static_cast<size_t>(gone_[later])] * multiples[later];
      }
      add_multiple(multiples[t], x.column(gone_[t]), out);
    }
    apply_steps(0, out);
    return out;
  }

  void apply_steps(size_t first, Values& x) const {
    for (size_t t = first; t < steps_.size(); ++t) {
      add_multiple(-x[static_cast<size_t>(gone_[t])], steps_[t].data(), x);
    }
  }

  // Returns a matrix whose column t is -E·e_g for the t-th removed neuron g. E is the product of
  // all steps. Only the rows of neurons that are left are meaningful.
  DoubleMatrix all_steps() const {
    DoubleMatrix out(inverse_.rows(), std::ssize(gone_));
    for (size_t t = 0; t < steps_.size(); ++t) {
      Values column = steps_[t];
      apply_steps(t + 1, column);
      std::ranges::copy(column, out.column(static_cast<int64_t>(t)));
    }
    return out;
  }

  const DoubleMatrix &inverse_, &squares_;
  const Values& floor_;
  // The diagonals of P and G after the removals so far.
  Values p_, g_;
  std::vector<bool> is_left_;
  std::vector<int32_t> gone_;
  // The vector c of each removed neuron.
  std::vector<Values> steps_;
};

// Scores each neuron compared with all others, which needs only the diagonal of the inverse.
Result<std::vector<int32_t>> order_of_each_alone(const DoubleMatrix& weighted, DoubleMatrix gram) {
  NMM_ASSIGN(const DoubleMatrix factor, cholesky(std::move(gram)));
  Values loss = inverse_diagonal(factor);
  for (size_t j = 0; j < loss.size(); ++j) {
    const double* const column = weighted.column(static_cast<int64_t>(j));
    loss[j] = std::inner_product(column, column + weighted.rows(), column, 0.0) / loss[j];
  }
  std::vector<int32_t> order(loss.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](int32_t i) { return loss[static_cast<size_t>(i)]; });
  return order;
}

}  // namespace

Result<std::vector<int32_t>> neuron_order(const DoubleMatrix& weighted, DoubleMatrix gram) {
  if (gram.columns() > kMostOneByOne) return order_of_each_alone(weighted, std::move(gram));
  Values floor = diagonal(gram);
  for (double& value : floor) value = 1.0 / value;
  NMM_ASSIGN(DoubleMatrix inverse, inverse_positive(std::move(gram)));
  DoubleMatrix squares = multiply(weighted, Transpose::kYes, weighted, Transpose::kNo);
  std::vector<int32_t> left(floor.size()), order;
  std::iota(left.begin(), left.end(), 0);
  for (;;) {
    NeuronBlock block(inverse, squares, floor);
    for (int64_t i = std::min(kNeuronBlock, std::ssize(left)); i > 0; --i) block.remove_cheapest();
    for (const int32_t i : block.gone()) order.push_back(left[static_cast<size_t>(i)]);
    const std::vector<int32_t> kept = block.left();
    if (kept.empty()) break;
    DoubleMatrix smaller = block.reduced(inverse);
    squares = block.reduced(squares);
    inverse = std::move(smaller);
    floor = elements_at(floor, kept);
    left = elements_at(left, kept);
  }
  std::ranges::reverse(order);
  return order;
}

}  // namespace neuronmm::compress
