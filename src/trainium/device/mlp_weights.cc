#include "trainium/device/mlp_weights.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/float16.h"
#include "base/parallel.h"
#include "trainium/simulator/interpreter.h"

namespace neuronmm::device {
namespace {

struct Part {
  std::string_view name;
  const ops::LinearWeight& weight;
};
std::array<Part, 3> parts_of(const ops::MlpWeight& mlp) {
  return {{{"gate", mlp.gate}, {"up", mlp.up}, {"down", mlp.down}}};
}

// The transpose of a checkpoint's matrix, rounded to bf16, in the first rows and columns of zeros
// [rows, columns].
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

// U·V [K, N], summed in fp32 and rounded to bf16, of u_t [r, K] and v_t [N, r].
Matrix product(const TensorView& u_t, const TensorView& v_t) {
  const std::vector<float> u = values_of(u_t), v = values_of(v_t);
  const int64_t rank = u_t.rows(), in = u_t.columns(), out = v_t.rows();
  Matrix matrix(in, out);
  parallel_ranges(in, [&](int64_t first, int64_t last) {
    for (int64_t j = 0; j < out; ++j) {
      // One column at a time: the inner loop runs along a contiguous row of Uᵀ.
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

// Rows per part: one part per thread, in whole vectors of the interpreter.
int64_t rows_per_part(int64_t tokens) {
  constexpr int64_t kFewest = 64;
  const int64_t share = tile::ceil_div(tokens, num_threads());
  return tile::ceil_div(share, kFewest) * kFewest;
}

}  // namespace

// Ranks may differ between the three matrices: the kernel has one rank, the largest, and the others
// are padded with zeros. If any matrix is dense, the dense kernel runs and low-rank ones are
// multiplied out.
Result<MlpShape> mlp_shape(const ops::MlpWeight& weight) {
  MlpShape shape{.hidden_size = weight.gate.in_features(),
                 .intermediate_size = weight.gate.out_features()};
  bool pivoted = !weight.in.empty();
  for (const Part& part : parts_of(weight)) pivoted = pivoted || part.weight.pivoted();
  if (pivoted) {
    return fail(
        "MLPs with pivots do not run on a simulated NeuronCore yet, whose kernels are for dense "
        "and for low-rank matrices; use the cpu");
  }
  for (const Part& part : parts_of(weight)) {
    if (part.weight.quantized()) {
      return fail(
          "the NeuronCore's MLP kernels take bf16 weights, {} is int8; use the model that it was "
          "quantized from",
          part.name);
    }
    if (!part.weight.bias.empty()) {
      return fail("the NeuronCore's MLP kernels take no bias; {} has one", part.name);
    }
    shape.rank = std::max(shape.rank, part.weight.rank());
  }
  const auto parts = parts_of(weight);
  const auto dense = [](const Part& part) { return !part.weight.low_rank(); };
  if (std::any_of(parts.begin(), parts.end(), dense)) shape.rank = 0;
  return shape;
}

// Operands are prepared once: transposed, rounded to bf16 as the device holds them, and padded.
MlpWeights::MlpWeights(const ops::MlpWeight& weight, const MlpShape& shape) {
  for (const auto& [name, w] : parts_of(weight)) {
    const int64_t in = w.in_features(), out = w.out_features();
    const auto add = [&, &part = name](std::string_view letter, const TensorView& view,
                                       int64_t rows, int64_t columns) {
      operands_.emplace(fmt::format("{}_{}", letter, part), operand(view, rows, columns));
    };
    if (w.low_rank() && shape.rank == 0) {
      operands_.emplace(fmt::format("w_{}", name), product(w.u_t, w.v_t));
    } else if (w.low_rank()) {
      add("u", w.u_t, in, shape.rank);
      add("v", w.v_t, shape.rank, out);
    } else {
      add("w", w.w_t, in, out);
    }
  }
}

void MlpWeights::apply(const MlpProgram& program, ConstMatrixView x, MutableMatrixView y) const {
  // Every thread interprets the whole kernel on its share of the rows, with the same weights in
  // place.
  const int64_t step = rows_per_part(x.rows);
  parallel_for(tile::ceil_div(x.rows, step), [&](int64_t part) {
    const int64_t first = part * step, rows = std::min(step, x.rows - first);
    simulator::Inputs inputs;
    for (const auto& [name, matrix] : operands_) {
      inputs.emplace(name, simulator::Input(matrix.view(), true));
    }
    inputs.emplace("x", x.row_range(first, rows));
    // The program was made, checked and timed for more rows before.
    const Result<tile::Program> tiles = program.for_rows(rows);
    NMM_CHECK(tiles.ok());
    const Result<simulator::Interpretation> result = simulator::interpret(*tiles, inputs);
    NMM_CHECK(result.ok());
    const Matrix& values = result->outputs.at("y");
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(values.row(i), values.columns(), y.row(first + i));
    }
  });
}

}  // namespace neuronmm::device
