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

// Rows per part: one part per thread, in whole vectors of the interpreter.
int64_t rows_per_part(int64_t tokens) {
  constexpr int64_t kFewest = 64;
  const int64_t share = tile::ceil_div(tokens, num_threads());
  return tile::ceil_div(share, kFewest) * kFewest;
}

}  // namespace

Result<MlpShape> mlp_shape(const ops::MlpWeight& weight) {
  MlpShape shape{.hidden_size = weight.gate.in_features(),
                 .intermediate_size = weight.gate.out_features()};
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
    if (part.weight.low_rank() != weight.gate.low_rank()) {
      return fail(
          "the NeuronCore's MLP kernels take gate, up and down all dense or all low-rank; found "
          "ranks {}, {} and {} (0: dense)",
          weight.gate.rank(), weight.up.rank(), weight.down.rank());
    }
    shape.rank = std::max(shape.rank, part.weight.rank());
  }
  return shape;
}

MlpWeights::MlpWeights(const ops::MlpWeight& weight, const MlpShape& shape) {
  for (const auto& [name, w] : parts_of(weight)) {
    const int64_t in = w.in_features(), out = w.out_features();
    const auto add = [&, &part = name](std::string_view letter, const TensorView& view,
                                       int64_t rows, int64_t columns) {
      operands_.emplace(fmt::format("{}_{}", letter, part), operand(view, rows, columns));
    };
    if (w.low_rank()) {
      add("u", w.u_t, in, shape.rank);
      add("v", w.v_t, shape.rank, out);
    } else {
      add("w", w.w_t, in, out);
    }
  }
}

void MlpWeights::apply(const MlpProgram& program, ConstMatrixView x, MutableMatrixView y) const {
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
