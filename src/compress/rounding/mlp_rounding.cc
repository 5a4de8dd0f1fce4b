#include "compress/rounding/mlp_rounding.h"

#include <algorithm>
#include <optional>

#include "compress/rounding/factor_rounding.h"
#include "compress/rounding/map_refit.h"

namespace neuronmm::compress {
namespace {

// The ridge of the fit to a rounded map, as a fraction of the mean of the Gram matrix's diagonal.
// It keeps the fit solvable if inputs are few or dependent. Assumed.
constexpr double kRoundedFitRidge = 1e-6;

// Returns the Gram matrix of the first `count` inputs.
DoubleMatrix leading(DoubleMatrix gram, int64_t count) {
  return count == gram.columns() ? std::move(gram) : gram.first_block(count);
}

// Returns the matrix [r, K] that makes the narrowed input from the full one: the identity in the
// columns of the pivots, and the map in the other columns.
DoubleMatrix with_pivots(const DoubleMatrix& map, const std::vector<int32_t>& pivots,
                         const std::vector<int32_t>& others) {
  DoubleMatrix all(map.rows(), map.rows() + map.columns());
  for (size_t i = 0; i < pivots.size(); ++i) all(static_cast<int64_t>(i), pivots[i]) = 1.0;
  for (size_t j = 0; j < others.size(); ++j) {
    std::copy_n(map.column(static_cast<int64_t>(j)), map.rows(), all.column(others[j]));
  }
  return all;
}

// Returns a·gram·bᵀ.
DoubleMatrix gram_between(const DoubleMatrix& a, const DoubleMatrix& gram, const DoubleMatrix& b) {
  return multiply(multiply(a, Transpose::kNo, gram, Transpose::kNo), Transpose::kNo, b,
                  Transpose::kYes);
}

// The input of the weights that read a rounded map.
struct NarrowedInput {
  // The Gram matrix of the narrowed input.
  RoundingGram gram;
  // [r, r]. A weight times `fit` compensates the error of the rounded map.
  DoubleMatrix fit;
};

// Rounds the tensors of one MLP.
class MlpRounding {
 public:
  MlpRounding(const TensorRounding& tensors, const ops::MlpWeight& mlp, const std::string& prefix)
      : tensors_(tensors), mlp_(mlp), prefix_(prefix) {}

  // Returns whether the codes of all tensors are in the work folder.
  bool finished() const {
    const auto has = [&](const ops::LinearWeight& linear, const char* which) {
      const std::string stem = prefix_ + which;
      if (linear.low_rank()) return done(stem + "_u_proj") && done(stem + "_v_proj");
      return done(stem + "_proj") && (!linear.pivoted() || done(stem + "_pivot_proj"));
    };
    return has(mlp_.gate, "gate") && has(mlp_.up, "up") && has(mlp_.down, "down") &&
           (mlp_.in.empty() || done(prefix_ + "input_pivot_proj"));
  }

  // Rounds gate, up and their maps. `in` [H, H] is the Gram matrix of the MLP's input.
  Status round_inputs(const DoubleMatrix& in) const {
    if (!mlp_.in.empty()) {
      NMM_ASSIGN(const NarrowedInput input, narrowed("input", "gate", mlp_.in, in));
      NMM_TRY(round_behind(input, "gate"));
      return round_behind(input, "up");
    }
    std::optional<RoundingGram> shared;  // dense gate and up read the same input
    for (const auto& [which, linear] : {std::pair("gate", &mlp_.gate), std::pair("up", &mlp_.up)}) {
      if (!linear->in.empty()) {
        NMM_ASSIGN(const NarrowedInput input, narrowed(which, which, linear->in, in));
        NMM_TRY(round_behind(input, which));
      } else if (linear->low_rank()) {
        NMM_TRY(round_factors_of(which, in));
      } else {
        if (!shared) {
          NMM_ASSIGN(shared, RoundingGram::prepare(divided_inputs(in, factors(which, "_proj"))));
        }
        NMM_TRY(round_dense(which, weight(which, "_proj"), *shared));
      }
    }
    return {};
  }

  // Rounds down and its map. `neurons` [I, I] is the Gram matrix of the neurons.
  Status round_down(DoubleMatrix neurons) const {
    DoubleMatrix gram = leading(std::move(neurons), mlp_.neurons());
    if (mlp_.down.low_rank()) return round_factors_of("down", gram);
    NMM_ASSIGN(const RoundingGram inputs,
               RoundingGram::prepare(divided_inputs(std::move(gram), factors("down", "_proj"))));
    DoubleMatrix weight = this->weight("down", "_proj");
    if (!mlp_.down.out.empty()) {
      const DoubleMatrix map = this->weight("down", "_pivot_proj");
      NMM_TRY(tensors_.round_to_nearest(name("down", "_pivot_proj"), map));
      NMM_ASSIGN(const DoubleMatrix rounded, tensors_.rounded(name("down", "_pivot_proj")));
      NMM_ASSIGN(weight, fitted_to_rounded_map(weight, map, rounded));
    }
    return round_dense("down", weight, inputs);
  }

 private:
  std::string name(const char* which, const char* ending) const {
    return fmt::format("{}{}{}.weight", prefix_, which, ending);
  }
  bool done(const std::string& module) const { return tensors_.finished(module + ".weight"); }
  DoubleMatrix weight(const char* which, const char* ending) const {
    return tensors_.weight(name(which, ending));
  }
  std::vector<double> factors(const char* which, const char* ending) const {
    return tensors_.input_factors(name(which, ending));
  }

  Status round_dense(const char* which, const DoubleMatrix& weight,
                     const RoundingGram& gram) const {
    const std::string tensor = name(which, "_proj");
    return tensors_.finished(tensor) ? Status() : tensors_.round(tensor, weight, gram);
  }

  // Rounds the second factor by the Gram matrix of the first one's output, then fits and rounds the
  // first.
  Status round_factors_of(const char* which, const DoubleMatrix& in) const {
    if (tensors_.finished(name(which, "_u_proj")) && tensors_.finished(name(which, "_v_proj"))) {
      return {};
    }
    DoubleMatrix v_t = weight(which, "_u_proj"), u_t = weight(which, "_v_proj");
    balance_factors(v_t, u_t);
    const DoubleMatrix gram = divided_inputs(in, factors(which, "_v_proj"));
    NMM_ASSIGN(const RoundingGram strip, RoundingGram::prepare(gram_between(u_t, gram, u_t)));
    NMM_TRY(tensors_.round(name(which, "_u_proj"), v_t, strip));
    NMM_ASSIGN(const DoubleMatrix rounded, tensors_.rounded(name(which, "_u_proj")));
    // v_t·u_t is approximated by rounded · (rounded⁺·v_t) · u_t, unless rounding has cost v_t its
    // full column rank.
    const auto change = least_squares(rounded, v_t);
    if (change.ok()) u_t = multiply(*change, Transpose::kNo, u_t, Transpose::kNo);
    NMM_ASSIGN(const RoundingGram inputs, RoundingGram::prepare(gram));
    return tensors_.round(name(which, "_v_proj"), u_t, inputs);
  }

  // Rounds the map `stem` to nearest and returns the Gram matrix and fit for the weights that read
  // it. `behind` names one of these weights, whose column factors are those of the pivots.
  Result<NarrowedInput> narrowed(const char* stem, const char* behind, const ops::Pivots& pivots,
                                 const DoubleMatrix& in) const {
    const std::string tensor = name(stem, "_pivot_proj");
    const DoubleMatrix map = tensors_.weight(tensor);
    NMM_TRY(tensors_.round_to_nearest(tensor, map));
    NMM_ASSIGN(const DoubleMatrix rounded, tensors_.rounded(tensor));
    const std::vector<int32_t> others = ops::non_pivots(pivots);
    std::vector<double> s(static_cast<size_t>(in.columns()));
    const std::vector<double> of_pivots = factors(behind, "_proj");
    const std::vector<double> of_others = tensors_.input_factors(tensor);
    for (size_t i = 0; i < of_pivots.size(); ++i) {
      s[static_cast<size_t>(pivots.index[i])] = of_pivots[i];
    }
    for (size_t j = 0; j < others.size(); ++j) s[static_cast<size_t>(others[j])] = of_others[j];
    const DoubleMatrix gram = divided_inputs(in, s);
    const DoubleMatrix exact = with_pivots(map, pivots.index, others);
    const DoubleMatrix found = with_pivots(rounded, pivots.index, others);
    DoubleMatrix own = gram_between(found, gram, found);
    NarrowedInput input;
    NMM_ASSIGN(input.gram, RoundingGram::prepare(own));
    NMM_ASSIGN(input.fit, fit_between(std::move(own), gram_between(found, gram, exact)));
    return input;
  }

  // Returns the F for which F·t is nearest to the exact narrowed input, where t is the one by the
  // rounded map. F is the transpose of own⁻¹·both.
  static Result<DoubleMatrix> fit_between(DoubleMatrix own, DoubleMatrix both) {
    double mean = 0;
    for (const double value : diagonal(own)) mean += value / static_cast<double>(own.rows());
    for (int64_t i = 0; i < own.rows(); ++i) own(i, i) += kRoundedFitRidge * mean;
    for (int64_t i = 0; i < own.rows(); ++i) both(i, i) += kRoundedFitRidge * mean;
    NMM_ASSIGN(const DoubleMatrix fit, solve_positive(std::move(own), std::move(both)));
    return transposed(fit);
  }

  Status round_behind(const NarrowedInput& input, const char* which) const {
    return round_dense(which,
                       multiply(weight(which, "_proj"), Transpose::kNo, input.fit, Transpose::kNo),
                       input.gram);
  }

  const TensorRounding& tensors_;
  const ops::MlpWeight& mlp_;
  const std::string& prefix_;
};

}  // namespace

Status round_mlp(const TensorRounding& tensors, const ops::MlpWeight& mlp,
                 const std::string& prefix,
                 const std::function<Result<MlpStatistics>()>& statistics) {
  const MlpRounding rounding(tensors, mlp, prefix);
  if (rounding.finished()) return {};
  NMM_ASSIGN(MlpStatistics found, statistics());
  NMM_TRY(rounding.round_inputs(leading(std::move(found.in), mlp.in_features())));
  return rounding.round_down(std::move(found.neurons));
}

}  // namespace neuronmm::compress
