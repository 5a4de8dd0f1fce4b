#include "trainium/device/mlp_weights.h"

#include <algorithm>
#include <list>

#include "base/float16.h"
#include "base/parallel.h"
#include "trainium/simulator/interpreter.h"

namespace neuronmm::device {
namespace {

// Returns the transpose of a checkpoint's matrix, rounded to bf16. It fills the first rows and
// columns of a matrix of zeros [rows, columns].
Matrix operand(const TensorView& transposed, int64_t rows, int64_t columns) {
  Matrix matrix(rows, columns);
  parallel_ranges(transposed.rows(), [&](int64_t first, int64_t last) {
    std::vector<float> row(static_cast<size_t>(transposed.columns()));
    for (int64_t j = first; j < last; ++j) {
      to_floats(transposed, j * transposed.columns(), transposed.columns(), row.data());
      for (int64_t i = 0; i < transposed.columns(); ++i) {
        matrix.row(i)[j] = bf16::from_float(row[static_cast<size_t>(i)]).to_float();
      }
    }
  });
  return matrix;
}

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  to_floats(tensor, 0, tensor.size(), values.data());
  return values;
}

// Returns U·V [K, N] of u_t [r, K] and v_t [N, r], summed in fp32 and rounded to bf16.
Matrix product(const TensorView& u_t, const TensorView& v_t) {
  const std::vector<float> u = values_of(u_t), v = values_of(v_t);
  const int64_t rank = u_t.rows(), in = u_t.columns(), out = v_t.rows();
  Matrix matrix(in, out);
  parallel_ranges(in, [&](int64_t first, int64_t last) {
    for (int64_t j = 0; j < out; ++j) {
      // The inner loop computes one column, so that it runs along a contiguous row of Uᵀ.
      std::vector<float> column(static_cast<size_t>(last - first));
      for (int64_t k = 0; k < rank; ++k) {
        const float* const u_row = u.data() + k * in + first;
        const float factor = v[static_cast<size_t>(j * rank + k)];
        for (size_t i = 0; i < column.size(); ++i) column[i] += factor * u_row[i];
      }
      for (int64_t i = first; i < last; ++i) {
        const float sum = column[static_cast<size_t>(i - first)];
        matrix.row(i)[j] = bf16::from_float(sum).to_float();
      }
    }
  });
  return matrix;
}

// Returns the rows per part, for one part per thread. Every part packs all weights again. Assumed:
// with fewer than 64 rows this costs more than another thread gains.
int64_t rows_per_part(int64_t tokens) {
  constexpr int64_t kFewest = 64;
  const int64_t share = tile::ceil_div(tokens, num_threads());
  return tile::ceil_div(share, kFewest) * kFewest;
}

// Returns the order of the kernels, which have pivots first.
std::vector<int32_t> pivots_first_order(const ops::Pivots& pivots) {
  std::vector<int32_t> order = pivots.index;
  const std::vector<int32_t> others = ops::non_pivots(pivots);
  order.insert(order.end(), others.begin(), others.end());
  return order;
}

Matrix reordered(ConstMatrixView x, const std::vector<int32_t>& order) {
  Matrix matrix(x.rows, x.columns);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (size_t j = 0; j < order.size(); ++j) {
      matrix.row(i)[static_cast<int64_t>(j)] = x.row(i)[order[j]];
    }
  }
  return matrix;
}

// Returns a matrix of any form as a dense one [in, out]. With input pivots, the pivots' rows are
// the weight, and the other rows are the map times the weight.
Matrix multiplied_out(const ops::LinearWeight& weight) {
  const int64_t in = weight.in_features(), out = weight.out_features();
  if (weight.low_rank()) return product(weight.u_t, weight.v_t);
  if (weight.in.empty()) return operand(weight.w_t, in, out);
  const Matrix pivots = operand(weight.w_t, weight.in.rank(), out);
  const Matrix others = product(weight.in.map_t, weight.w_t);
  const std::vector<int32_t> order = pivots_first_order(weight.in);
  Matrix dense(in, out);
  for (int64_t k = 0; k < in; ++k) {
    const int64_t other = k - pivots.rows();
    std::copy_n(other < 0 ? pivots.row(k) : others.row(other), out,
                dense.row(order[static_cast<size_t>(k)]));
  }
  return dense;
}

}  // namespace

// Operands are prepared once: transposed, rounded to bf16 as the device holds them, and padded.
MlpWeights::MlpWeights(const ops::MlpWeight& weight, const MlpShape& shape) {
  if (shape.rank > 0) {
    add_factors("gate", weight.gate, shape.rank);
    add_factors("up", weight.up, shape.rank);
    add_factors("down", weight.down, shape.rank);
    x_orders_.emplace("x", std::vector<int32_t>());
    return;
  }
  add_up(weight, shape);
  const ops::Pivots& out = weight.down.out;
  if (shape.output_pivots > 0) {
    const int64_t other_outputs = shape.hidden_size - shape.output_pivots;
    operands_.emplace("w_down",
                      operand(weight.down.w_t, shape.intermediate_size, shape.output_pivots));
    operands_.emplace("c", operand(out.map_t, shape.output_pivots, other_outputs));
    y_order_ = pivots_first_order(out);
  } else {
    operands_.emplace("w_down", multiplied_out(weight.down));
  }
}

void MlpWeights::add_factors(const std::string& name, const ops::LinearWeight& weight,
                             int64_t rank) {
  operands_.emplace("u_" + name, operand(weight.u_t, weight.in_features(), rank));
  operands_.emplace("v_" + name, operand(weight.v_t, rank, weight.out_features()));
}

void MlpWeights::add_up(const ops::MlpWeight& weight, const MlpShape& shape) {
  if (shape.separate_pivots) {
    add_pivoted("gate", weight.gate, shape.input_pivots);
    add_pivoted("up", weight.up, shape.input_pivots);
    return;
  }
  operands_.emplace("w_gate", multiplied_out(weight.gate));
  operands_.emplace("w_up", multiplied_out(weight.up));
  std::vector<int32_t>& order = x_orders_["x"];
  if (shape.input_pivots == 0) return;
  operands_.emplace(
      "d", operand(weight.in.map_t, shape.hidden_size - shape.input_pivots, shape.input_pivots));
  order = pivots_first_order(weight.in);
}

// Adds the operands of a matrix with its own pivots. If the kernel has more pivots than the weight,
// the first of the other inputs become pivots. Their rows of the map stay 0, and they get their own
// rows of the weight.
void MlpWeights::add_pivoted(const std::string& name, const ops::LinearWeight& weight,
                             int64_t rank) {
  const int64_t in = weight.in_features(), pivots = weight.in.rank(), joined = rank - pivots;
  Matrix d(in - rank, rank), w = operand(weight.w_t, rank, weight.out_features());
  const Matrix map = operand(weight.in.map_t, in - pivots, pivots);
  for (int64_t i = 0; i < d.rows(); ++i) std::copy_n(map.row(joined + i), pivots, d.row(i));
  if (joined > 0) {
    const Matrix others = product(weight.in.map_t, weight.w_t);
    for (int64_t i = 0; i < joined; ++i) {
      std::copy_n(others.row(i), w.columns(), w.row(pivots + i));
    }
  }
  operands_.emplace("d_" + name, std::move(d));
  operands_.emplace("w_" + name, std::move(w));
  x_orders_.emplace("x_" + name, pivots_first_order(weight.in));
}

void MlpWeights::apply(const MlpProgram& program, ConstMatrixView x, MutableMatrixView y) const {
  // Every thread interprets the whole kernel on its share of the rows. All threads read the same
  // weights in place.
  const int64_t step = rows_per_part(x.rows);
  parallel_for(tile::ceil_div(x.rows, step), [&](int64_t part) {
    const int64_t first = part * step, rows = std::min(step, x.rows - first);
    interpret(program, x.row_range(first, rows), y.row_range(first, rows));
  });
}

void MlpWeights::interpret(const MlpProgram& program, ConstMatrixView x,
                           MutableMatrixView y) const {
  simulator::Inputs inputs;
  for (const auto& [name, matrix] : operands_) {
    inputs.emplace(name, simulator::Input(matrix.view(), true));
  }
  std::list<Matrix> reordered_inputs;
  for (const auto& [name, order] : x_orders_) {
    if (order.empty()) {
      inputs.emplace(name, x);
    } else {
      inputs.emplace(name, reordered_inputs.emplace_back(reordered(x, order)).view());
    }
  }
  // The program for more rows has already been made, checked and timed.
  const Result<tile::Program> tiles = program.for_rows(x.rows);
  NMM_CHECK(tiles.ok());
  const Result<simulator::Interpretation> result = simulator::interpret(*tiles, inputs);
  NMM_CHECK(result.ok());
  const Matrix& values = result->outputs.at("y");
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* const row = values.row(i);
    if (y_order_.empty()) std::copy_n(row, values.columns(), y.row(i));
    for (size_t j = 0; j < y_order_.size(); ++j) y.row(i)[y_order_[j]] = row[j];
  }
}

}  // namespace neuronmm::device
