#include "compress/mlp_statistics.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "base/parallel.h"
#include "compress/gram.h"
#include "compress/layerwise_pass.h"
#include "io/safetensors_writer.h"
#include "model/rope.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStatisticsPass = "statistics";

enum Sum { kIn, kNeurons, kGateSlope, kUpSlope, kResidual, kSums };
constexpr const char* kSumNames[kSums] = {"in", "neurons", "gate_slope", "up_slope", "residual"};

std::vector<Shape> sum_shapes(const io::ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  return {{hidden, hidden}, {inner, inner}, {1, inner}, {1, inner}, {1, 1}};
}

// The second half of a layer in single steps, because no backend gives away what happens between
// gate and down.
class OpenMlpHalf {
 public:
  OpenMlpHalf(LayerwisePass& pass, const io::ModelConfig& config,
              const model::LayerWeights& weights, const ops::Backend& backend)
      : pass_(pass),
        backend_(backend),
        eps_(static_cast<float>(config.rms_norm_eps)),
        norm_(static_cast<size_t>(weights.post_attention_norm.size())),
        gate_(backend.make_linear(weights.mlp.gate)),
        up_(backend.make_linear(weights.mlp.up)),
        down_(backend.make_linear(weights.mlp.down)) {
    to_floats(weights.post_attention_norm, 0, weights.post_attention_norm.size(), norm_.data());
  }

  void apply(MutableMatrixView hidden) {
    const int64_t inner = pass_.sum(kNeurons).rows();
    Matrix input(hidden.rows, hidden.columns), gate(hidden.rows, inner), up(hidden.rows, inner);
    backend_.rms_norm(hidden, norm_, eps_, input.view());
    gate_->apply(input.view(), gate.view());
    up_->apply(input.view(), up.view());
    activate(gate, up);
    add_gram(input.view(), pass_.sum(kIn));
    add_gram(gate.view(), pass_.sum(kNeurons));
    down_->apply(gate.view(), input.view());
    backend_.add(input.view(), hidden);
  }

 private:
  // gate = silu(gate) * up. A range of neurons belongs to one thread, so that the sums are the same
  // with any number.
  void activate(Matrix& gate, const Matrix& up) {
    double* const gate_slope = pass_.sum(kGateSlope).data();
    double* const up_slope = pass_.sum(kUpSlope).data();
    parallel_ranges(gate.columns(), [&](int64_t first, int64_t last) {
      for (int64_t i = 0; i < gate.rows(); ++i) {
        float* const h = gate.row(i);
        const float* const u = up.row(i);
        for (int64_t j = first; j < last; ++j) {
          const float g = h[j], sigmoid = 1.0f / (1.0f + std::exp(-g)), silu = g * sigmoid;
          const double of_gate = u[j] * sigmoid * (1.0f + g * (1.0f - sigmoid));
          gate_slope[j] += of_gate * of_gate;
          up_slope[j] += double{silu} * silu;
          h[j] = silu * u[j];
        }
      }
    });
  }

  LayerwisePass& pass_;
  const ops::Backend& backend_;
  float eps_;
  std::vector<float> norm_;
  std::unique_ptr<ops::Linear> gate_, up_, down_;
};

double mean_squares(ConstMatrixView rows) {
  double sum = 0.0;
  for (int64_t i = 0; i < rows.rows; ++i) {
    for (int64_t j = 0; j < rows.columns; ++j) sum += double{rows.row(i)[j]} * rows.row(i)[j];
  }
  return sum / static_cast<double>(rows.columns);
}

bool is_symmetric(size_t which) { return which == kIn || which == kNeurons; }

// As the file has it.
Shape stored_shape(size_t which, const Shape& shape) {
  return is_symmetric(which) ? Shape{shape[0] * (shape[0] + 1) / 2} : shape;
}

// Moves the lower triangle to the front, where it takes half of the memory.
void pack_triangle(DoubleMatrix& matrix) {
  double* to = matrix.data();
  for (int64_t j = 0; j < matrix.columns(); ++j) {
    to = std::copy(matrix.column(j) + j, matrix.column(j) + matrix.rows(), to);
  }
}

// Back again, from the last column on, with the upper triangle.
void unpack_triangle(DoubleMatrix& matrix) {
  const int64_t size = matrix.rows();
  const double* from = matrix.data() + size * (size + 1) / 2;
  for (int64_t j = size - 1; j >= 0; --j) {
    from -= size - j;
    std::copy_backward(from, from + (size - j), matrix.column(j) + size);
  }
  mirror_lower_triangle(matrix);
}

// The sums of a layer as means: of symmetric ones only the lower triangle was gathered.
Status write_layer_statistics(LayerwisePass& pass, const fs::path& work, int64_t tokens) {
  std::vector<io::TensorSpec> specs;
  for (size_t i = 0; i < kSums; ++i) {
    const Shape shape = {pass.sum(i).rows(), pass.sum(i).columns()};
    specs.push_back({kSumNames[i], DType::kF64, stored_shape(i, shape)});
  }
  NMM_ASSIGN(auto writer,
             io::SafetensorsWriter::create_checked(statistics_path(work, pass.layer()), specs, {}));
  for (size_t i = 0; i < kSums; ++i) {
    DoubleMatrix& mean = pass.sum(i);
    for (int64_t j = 0; j < mean.columns(); ++j) {
      mean.scale_column(j, 1.0 / static_cast<double>(tokens));
    }
    if (!mean.all_finite()) {
      return fail("the MLP of layer {} makes NaN or infinity of the calibration text",
                  pass.layer());
    }
    if (is_symmetric(i)) pack_triangle(mean);
    const int64_t count = is_symmetric(i) ? specs[i].shape[0] : mean.size();
    NMM_TRY(writer.append(std::as_bytes(std::span(mean.data(), static_cast<size_t>(count)))));
  }
  return writer.finish();
}

Status check_tensors(const io::SafetensorsFile& file, const fs::path& path,
                     const io::ModelConfig& config) {
  const std::vector<Shape> shapes = sum_shapes(config);
  for (size_t i = 0; i < kSums; ++i) {
    const auto found = file.tensors().find(kSumNames[i]);
    const Shape expected = stored_shape(i, shapes[i]);
    if (found == file.tensors().end() || found->second.dtype != DType::kF64 ||
        found->second.shape != expected) {
      return fail("{}: expected tensor {} F64 {}", path.string(), kSumNames[i],
                  shape_string(expected));
    }
  }
  return {};
}

bool all_gathered(const io::ModelConfig& config, const fs::path& work) {
  std::error_code ignored;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!check_statistics(work, layer, config).ok()) return false;
  }
  return !fs::exists(LayerwisePass::state_path(work, kStatisticsPass), ignored);
}

}  // namespace

fs::path statistics_path(const fs::path& work, int64_t layer) {
  return work / fmt::format("mlp-{:05}.safetensors", layer);
}

Result<MlpStatistics> read_statistics(const fs::path& work, int64_t layer,
                                      const io::ModelConfig& config) {
  const fs::path path = statistics_path(work, layer);
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open(path));
  NMM_TRY(check_tensors(file, path, config));
  MlpStatistics statistics;
  DoubleMatrix* const to[kSums] = {&statistics.in, &statistics.neurons, &statistics.gate_slope,
                                   &statistics.up_slope, &statistics.residual};
  const std::vector<Shape> shapes = sum_shapes(config);
  for (size_t i = 0; i < kSums; ++i) {
    const TensorView& tensor = file.tensors().at(kSumNames[i]);
    *to[i] = DoubleMatrix(shapes[i][0], shapes[i][1]);
    to_doubles(tensor, 0, tensor.size(), to[i]->data());
    if (is_symmetric(i)) unpack_triangle(*to[i]);
  }
  return statistics;
}

Status check_statistics(const fs::path& work, int64_t layer, const io::ModelConfig& config) {
  const fs::path path = statistics_path(work, layer);
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open_checked(path));
  return check_tensors(file, path, config);
}

Status gather_statistics(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                         const ops::Backend& backend, const CalibrationSequences& text,
                         const fs::path& work, Progress& progress) {
  if (all_gathered(config, work)) return {};
  const LayerwisePass::Settings settings = {
      .name = kStatisticsPass, .label = "calibrating", .sums = sum_shapes(config)};
  NMM_ASSIGN(LayerwisePass pass,
             LayerwisePass::open(checkpoint, config, text, work, settings, progress));
  const ops::RotaryEmbedding rotary = model::rotary_embedding(config);
  // One layer is in it at a time, as layer 0.
  const auto cache =
      backend.make_kv_cache({1, config.num_key_value_heads, config.head_dim, text.longest()});
  while (!pass.done()) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint, config, pass.layer()));
    const model::DecoderLayer layer(config, 0, weights, backend);
    OpenMlpHalf mlp(pass, config, weights, backend);
    NMM_TRY(pass.visit_sequences([&](size_t sequence) {
      const MutableMatrixView hidden = pass.hidden(0, sequence);
      const ops::SequenceRows rows = {cache.get(), hidden.rows};
      layer.attention_half(hidden, rotary, std::span(&rows, 1));
      mlp.apply(hidden);
      pass.sum(kResidual)(0, 0) += mean_squares(hidden);
    }));
    const Status written = write_layer_statistics(pass, work, text.origin.tokens);
    if (!written.ok()) {
      return fail("{}: {}", checkpoint.folder().string(), written.error().message);
    }
    NMM_TRY(pass.next_layer());
  }
  return {};
}

}  // namespace neuronmm::compress
