// Makes saved statistics of random neurons for a model folder of any size. With them the cost of
// `compress --statistics` can be measured without a calibration that takes hours:
//
//   neuronmm synthesize --config config.json -o model
//   make_statistics model statistics [two-sided]
//   /usr/bin/time -v neuronmm compress model -o small --ratio 0.2 --statistics statistics

#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

#include <fmt/core.h>

#include "compress/linear_algebra/blas.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "compress/statistics/mlp_statistics.h"
#include "compress/statistics/saved_statistics.h"
#include "io/model_folder.h"
#include "io/safetensors_writer.h"

namespace neuronmm {
namespace {

namespace fs = std::filesystem;
using compress::DoubleMatrix;

// The number of directions that many elements share. Each element also has a part of its own.
constexpr int64_t kShared = 256;

DoubleMatrix random_gram(int64_t size, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  DoubleMatrix x(size, kShared);
  for (int64_t j = 0; j < kShared; ++j) {
    const double length = 1.0 / static_cast<double>(1 + j);
    for (int64_t i = 0; i < size; ++i) x(i, j) = length * normal(random);
  }
  DoubleMatrix gram = compress::product_with_transposed(x, x);
  for (int64_t i = 0; i < size; ++i) gram(i, i) += 1e-3 * std::exp(normal(random));
  return gram;
}

Status append(const DoubleMatrix& matrix, io::SafetensorsWriter& writer) {
  return writer.append(std::as_bytes(std::span(matrix.data(), static_cast<size_t>(matrix.size()))));
}

Status append_triangle(const DoubleMatrix& matrix, io::SafetensorsWriter& writer) {
  for (int64_t j = 0; j < matrix.columns(); ++j) {
    const auto count = static_cast<size_t>(matrix.rows() - j);
    NMM_TRY(writer.append(std::as_bytes(std::span(matrix.column(j) + j, count))));
  }
  return {};
}

DoubleMatrix ones(int64_t columns) {
  DoubleMatrix row(1, columns);
  for (int64_t j = 0; j < columns; ++j) row(0, j) = 1.0;
  return row;
}

Status write_layer(const fs::path& folder, int64_t layer, const io::ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              compress::statistics_path(folder, layer),
                              {{"in", DType::kF64, {hidden * (hidden + 1) / 2}},
                               {"neurons", DType::kF64, {inner * (inner + 1) / 2}},
                               {"gate_slope", DType::kF64, {1, inner}},
                               {"up_slope", DType::kF64, {1, inner}},
                               {"residual", DType::kF64, {1, 1}}}));
  std::mt19937_64 random(static_cast<uint64_t>(layer));
  NMM_TRY(append_triangle(random_gram(hidden, random), writer));
  NMM_TRY(append_triangle(random_gram(inner, random), writer));
  NMM_TRY(append(ones(inner), writer));
  NMM_TRY(append(ones(inner), writer));
  NMM_TRY(append(ones(1), writer));
  return writer.finish();
}

Status write_metric(const fs::path& file, const io::ModelConfig& config) {
  std::vector<io::TensorSpec> specs;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.mlp.metric_", layer);
    specs.push_back({prefix + "out", DType::kF64, {config.hidden_size, config.hidden_size}});
    specs.push_back({prefix + "gate", DType::kF64, {config.intermediate_size}});
    specs.push_back({prefix + "up", DType::kF64, {config.intermediate_size}});
  }
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(file, specs));
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    std::mt19937_64 random(static_cast<uint64_t>(1000 + layer));
    NMM_TRY(append(random_gram(config.hidden_size, random), writer));
    NMM_TRY(append(ones(config.intermediate_size), writer));
    NMM_TRY(append(ones(config.intermediate_size), writer));
  }
  return writer.finish();
}

Status run(const fs::path& model, const fs::path& out, bool two_sided) {
  NMM_TRY(compress::load_blas());
  NMM_ASSIGN(const io::ModelFolder opened, io::open_model(model));
  const io::ModelConfig& config = opened.config;
  const io::Checkpoint& checkpoint = opened.checkpoint;
  fs::create_directories(out);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_TRY(write_layer(out, layer, config));
  }
  if (two_sided) NMM_TRY(write_metric(compress::SavedStatistics::metric_path(out), config));
  const compress::CalibrationOrigin origin = {
      .tokens = 1, .text = "random", .sources = {{"random", "0000000000000000", 1, 1}}};
  return compress::SavedStatistics::describe(out, checkpoint, config, origin);
}

}  // namespace
}  // namespace neuronmm

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: make_statistics MODEL_DIR OUT_DIR [two-sided]\n");
    return 2;
  }
  const auto status =
      neuronmm::run(argv[1], argv[2], argc > 3 && std::string(argv[3]) == "two-sided");
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.error().message);
  return 1;
}
