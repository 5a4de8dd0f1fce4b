#include "fit/rounding_losses.h"

#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/freed_memory.h"
#include "base/interrupt.h"
#include "base/task_labels.h"
#include "compress/quantize.h"
#include "compress/rounding/calibrated_rounding.h"
#include "compress/rounding/codes_file.h"
#include "compress/sizes/dense_reference.h"
#include "compress/statistics/mlp_statistics.h"
#include "eval/folder_divergence.h"
#include "fit/dequantized_weight.h"
#include "fit/losses_json.h"
#include "io/json_file.h"
#include "io/text_file.h"
#include "model/layer_weights.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::fit {
namespace {

namespace fs = std::filesystem;
using compress::DoubleMatrix;

// The number of rows of every matrix whose errors are compared. Assumed: the rows of a matrix are
// similar.
constexpr int64_t kSampleRows = 64;

// The most tokens of one sequence. Assumed.
constexpr int64_t kProbeLength = 128;

constexpr const char* kFileName = "rounding.json";  // in the folder of the measurements
// The name of the losses of an embedding table that is not the LM head.
constexpr const char* kEmbedding = "embedding";
// The name of the losses of the whole model in 8 bits, and of the folder of that model, which is
// measured and deleted.
constexpr const char* kInt8Name = "int8";

// Returns sequences that are spread over the text and have about kProbeTokens tokens. Each is cut
// to kProbeLength tokens, because a part is measured once per layer.
std::vector<std::vector<text::TokenId>> probe_sequences(
    const std::vector<std::vector<text::TokenId>>& sequences) {
  const auto available = std::ssize(sequences);
  const int64_t count = std::clamp<int64_t>(kProbeTokens / kProbeLength, 1, available);
  std::vector<std::vector<text::TokenId>> chosen;
  for (int64_t i = 0; i < count; ++i) {
    auto sequence = sequences[static_cast<size_t>(i * available / count)];
    sequence.resize(std::min(sequence.size(), static_cast<size_t>(kProbeLength)));
    chosen.push_back(std::move(sequence));
  }
  return chosen;
}

// Mean squares of the inputs of an MLP's matrices. They are kept for both parts of a layer, because
// the Gram matrices that they come from have gigabytes in a large model.
struct MlpSquares {
  int64_t layer = -1;
  std::vector<double> in, neurons;
};

// Measures the losses of one model, and continues from the saved ones.
class RoundingMeasurement {
 public:
  RoundingMeasurement(const compress::CompressionInputs& inputs, const fs::path& statistics,
                      const fs::path& folder)
      : inputs_(inputs),
        statistics_(statistics),
        folder_(folder),
        path_(folder / kFileName),
        prefix_(model::tensor_prefix(inputs.checkpoint)) {}

  Result<RoundingLosses> run() {
    NMM_ASSIGN(saved_, read_losses(path_));
    const int64_t layers = inputs_.config.num_hidden_layers;
    RoundingLosses losses;
    losses.layers.resize(static_cast<size_t>(layers));
    if (!all_saved()) NMM_TRY(prepare());
    start_progress();
    int64_t done = 0;
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (size_t part = 0; part < kParts; ++part) {
        NMM_ASSIGN(losses.layers[static_cast<size_t>(layer)][part],
                   measured_or_saved(part_name(layer, part),
                                     [&] { return measure_part(layer, static_cast<Part>(part)); }));
        inputs_.progress.update(++done, fmt::format("layer {}", layer));
      }
    }
    NMM_ASSIGN(losses.head, measured_or_saved(head_name(), [&] { return measure_head(); }));
    if (!inputs_.config.tie_word_embeddings) {
      NMM_ASSIGN(losses.embedding,
                 measured_or_saved(kEmbedding, [&] { return measure_embedding(); }));
    }
    inputs_.progress.finish();
    reference_.reset();
    return_freed_memory();
    NMM_ASSIGN(const FormatLosses whole,
               measured_or_saved(kInt8Name, [&] { return measure_int8(); }));
    losses.activations = std::max(0.0, whole[0] - weight_loss_of_int8(losses));
    NMM_TRY(remove_own("codes"));  // they are needed only for the measurements above
    return losses;
  }

 private:
  // Starts the progress with the parts that an earlier run has measured, and says how many.
  void start_progress() const {
    const int64_t layers = inputs_.config.num_hidden_layers;
    int64_t found = 0;
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (size_t part = 0; part < kParts; ++part) found += saved_.contains(part_name(layer, part));
    }
    const int64_t all = layers * static_cast<int64_t>(kParts) + 1;
    if (found > 0 && found + 1 < all) {
      inputs_.progress.print(std::string(task::kMeasuringRounding) + ": " +
                             found_text(found, all, "part", "parts"));
    }
    inputs_.progress.start(task::kMeasuringRounding, all, found);
  }

  // Deletes a folder of this measurement. A killed run may have left a part of it.
  Status remove_own(const char* name) const {
    std::error_code error;
    fs::remove_all(folder_ / name, error);
    if (!error) return {};
    return fail("{}: cannot be deleted: {}", (folder_ / name).string(), error.message());
  }

  static std::string part_name(int64_t layer, size_t part) {
    return fmt::format("layers.{}.{}", layer, part);
  }
  // A table has another name, because version 0.2.0 measured it as a head only, and its
  // measurements must not be taken for those of a table.
  std::string head_name() const { return inputs_.config.tie_word_embeddings ? "table" : "head"; }

  // Returns whether the losses of all parts and of the head are saved. Only these need the codes.
  bool all_saved() const {
    for (int64_t layer = 0; layer < inputs_.config.num_hidden_layers; ++layer) {
      for (size_t part = 0; part < kParts; ++part) {
        if (!saved_.contains(part_name(layer, part))) return false;
      }
    }
    const bool table = inputs_.config.tie_word_embeddings || saved_.contains(kEmbedding);
    return table && saved_.contains(head_name());
  }

  // Rounds the whole model to codes of 4 bits and loads the model into memory.
  Status prepare() {
    NMM_ASSIGN(const auto saved,
               compress::SavedStatistics::open(statistics_, inputs_.checkpoint, inputs_.config));
    // One pass without the sweeps that follow it. They would lower all losses by about a sixth, in
    // three times the time.
    const compress::CalibratedRounding rounding = {
        .statistics = statistics_, .saved = &saved, .settings = {.descents = 0, .refits = 0}};
    NMM_ASSIGN(rounded_,
               compress::round_by_text(inputs_, rounding, {kCandidates[kMeasuredFormat]}, folder_));
    return_freed_memory();
    probe_sequences_ = probe_sequences(inputs_.text->held_out);
    NMM_ASSIGN(reference_, compress::DenseReference::run(inputs_, probe_sequences_,
                                                         compress::DenseReference::kKeptLogitBytes,
                                                         kProbeStride));
    return {};
  }

  // Returns what an earlier run has measured, or else what `measure` returns, which is then saved.
  template <typename Measure>
  Result<FormatLosses> measured_or_saved(const std::string& name, const Measure& measure) {
    if (const auto found = saved_.find(name); found != saved_.end()) return found->second;
    if (interrupted()) {
      return interrupted_error(
          fmt::format("what rounding costs is measured for {} parts", saved_.size()));
    }
    NMM_ASSIGN(const FormatLosses losses, measure());
    for (const double loss : losses) {
      if (std::isfinite(loss)) continue;
      return fail("{}: the model makes NaN or infinity of the calibration text",
                  inputs_.checkpoint.folder().string());
    }
    saved_[name] = losses;
    NMM_TRY(write_losses(path_, saved_));
    return losses;
  }

  Result<FormatLosses> measure_part(int64_t layer, Part part) {
    const std::string at = fmt::format("{}layers.{}.", prefix_, layer);
    std::vector<DequantizedWeight> dequantized;
    FormatLosses errors = {};
    NMM_ASSIGN(const std::vector<double> inputs, mean_squares(layer, part));
    for (const std::string& module : modules_of(part)) {
      const std::string tensor = at + module + ".weight";
      NMM_ASSIGN(dequantized.emplace_back(), rounded(tensor));
      add_errors(tensor, inputs, errors);
    }
    const double measured = divergence(layer, part, dequantized);
    inputs_.checkpoint.release_pages();
    return scaled_to_formats(measured, errors);
  }

  double divergence(int64_t layer, Part part,
                    const std::vector<DequantizedWeight>& dequantized) const {
    model::LayerWeights weights = reference_->weights(layer);
    switch (part) {
      case kQueriesAndKeys:
        weights.q.w_t = dequantized[0].view();
        weights.k.w_t = dequantized[1].view();
        break;
      case kValues:
        weights.v.w_t = dequantized[0].view();
        break;
      case kAttentionOutput:
        weights.o.w_t = dequantized[0].view();
        break;
      case kGateAndUp:
        weights.mlp.gate.w_t = dequantized[0].view();
        weights.mlp.up.w_t = dequantized[1].view();
        return reference_->divergence_with(layer, weights.mlp);
      default:
        weights.mlp.down.w_t = dequantized[0].view();
        return reference_->divergence_with(layer, weights.mlp);
    }
    return reference_->divergence_with_attention(layer, weights);
  }

  // Returns the loss of the model with all weights and activations in 8 bits.
  Result<FormatLosses> measure_int8() {
    const fs::path out = folder_ / kInt8Name;
    NMM_TRY(remove_own(kInt8Name));
    compress::QuantizeRequest request;
    request.model = inputs_.checkpoint.folder();
    request.out = out;
    request.smooth = true;
    request.statistics = statistics_;
    request.force = true;
    NMM_TRY(compress::quantize(request, inputs_.backend, inputs_.progress));
    NMM_ASSIGN(const auto divergence,
               eval::folder_divergence(inputs_.checkpoint.folder(), out,
                                       probe_sequences(inputs_.text->held_out), inputs_.backend,
                                       inputs_.progress));
    NMM_TRY(remove_own(kInt8Name));
    FormatLosses losses = {};
    losses[0] = divergence.divergence.value;
    return losses;
  }

  static double weight_loss_of_int8(const RoundingLosses& losses) {
    double sum = losses.head[0];  // the whole model in 8 bits keeps a table of its own
    for (const auto& layer : losses.layers) {
      for (const FormatLosses& part : layer) sum += part[0];
    }
    return sum;
  }

  // Measures the head. A tied table is rounded for both of its uses, so that the layers read
  // rounded embeddings, too.
  Result<FormatLosses> measure_head() {
    const bool tied = inputs_.config.tie_word_embeddings;
    const std::string tensor = tied ? prefix_ + "embed_tokens.weight" : "lm_head.weight";
    NMM_ASSIGN(const DoubleMatrix gram,
               compress::read_head_statistics(statistics_, inputs_.config));
    FormatLosses errors = {};
    add_errors(tensor, compress::diagonal(gram), errors);
    NMM_ASSIGN(ops::Codes codes, codes_of(tensor));
    const QuantizedHead head(std::move(codes), scale_of(tensor), inputs_.backend);
    return scaled_to_formats(
        tied ? reference_->divergence_with_table(head, head.embed(probe_sequences_))
             : reference_->divergence_with_head(head),
        errors);
  }

  // Measures an embedding table of its own, whose rows are rounded to nearest.
  Result<FormatLosses> measure_embedding() const {
    const TensorView& table = inputs_.checkpoint.tensors().at(prefix_ + "embed_tokens.weight");
    int64_t count = 0;
    for (const auto& sequence : probe_sequences_) count += std::ssize(sequence);
    DoubleMatrix rows(count, table.columns());
    std::vector<double> values(static_cast<size_t>(table.columns()));
    int64_t row = 0;
    for (const auto& sequence : probe_sequences_) {
      for (const text::TokenId token : sequence) {
        to_doubles(table, token * table.columns(), table.columns(), values.data());
        for (int64_t j = 0; j < table.columns(); ++j) rows(row, j) = values[static_cast<size_t>(j)];
        ++row;
      }
    }
    FormatLosses errors = {};
    double measured = 0.0;
    for (size_t format = 0; format < kFormats; ++format) {
      DoubleMatrix nearest = rows;
      compress::round_to(kCandidates[format], nearest);
      Matrix embedded(count, table.columns());
      for (int64_t j = 0; j < table.columns(); ++j) {
        for (int64_t i = 0; i < count; ++i) {
          const double error = rows(i, j) - nearest(i, j);
          errors[format] += error * error;
          embedded.view().row(i)[j] = static_cast<float>(nearest(i, j));
        }
      }
      if (format != kMeasuredFormat) continue;
      measured = reference_->divergence_with_embeddings(std::move(embedded));
    }
    return scaled_to_formats(measured, errors);
  }

  static FormatLosses scaled_to_formats(double measured, const FormatLosses& errors) {
    FormatLosses losses = {};
    for (size_t format = 0; format < kFormats; ++format) {
      losses[format] =
          errors[kMeasuredFormat] > 0.0 ? measured * errors[format] / errors[kMeasuredFormat] : 0.0;
    }
    return losses;
  }

  Result<ops::Codes> codes_of(const std::string& tensor) const {
    const Shape shape = inputs_.checkpoint.tensors().at(tensor).shape;
    return compress::read_codes(rounded_.codes, tensor, kCandidates[kMeasuredFormat], shape[0],
                                shape[1]);
  }

  Result<DequantizedWeight> rounded(const std::string& tensor) const {
    NMM_ASSIGN(const ops::Codes codes, codes_of(tensor));
    return dequantized_rows(codes, scale_of(tensor), 0, codes.rows);
  }

  compress::TensorScale scale_of(const std::string& tensor) const {
    const auto found = rounded_.scales.find(tensor);
    return found == rounded_.scales.end() ? compress::TensorScale() : found->second;
  }

  // Returns the mean squares of the part's inputs.
  Result<std::vector<double>> mean_squares(int64_t layer, Part part) {
    if (part == kGateAndUp || part == kDown) {
      if (mlp_.layer != layer) {
        NMM_ASSIGN(const auto mlp, compress::read_statistics(statistics_, layer, inputs_.config));
        mlp_ = {layer, compress::diagonal(mlp.in), compress::diagonal(mlp.neurons)};
      }
      return part == kDown ? mlp_.neurons : mlp_.in;
    }
    NMM_ASSIGN(const auto attention,
               compress::read_attention_statistics(statistics_, layer, inputs_.config));
    return compress::diagonal(part == kQueriesAndKeys ? attention.in
                              : part == kValues       ? attention.mixed
                                                      : attention.heads);
  }

  // Returns rows that are spread over the matrix, times their smoothing factors.
  DoubleMatrix sample_of(const std::string& tensor, const compress::TensorScale& scale) const {
    const TensorView& weight = inputs_.checkpoint.tensors().at(tensor);
    const int64_t columns = weight.shape[1], rows = std::min(kSampleRows, weight.rows());
    DoubleMatrix sample(rows, columns);
    std::vector<double> values(static_cast<size_t>(columns));
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = i * weight.rows() / rows;
      to_doubles(weight, row * columns, columns, values.data());
      for (int64_t j = 0; j < columns; ++j) {
        sample(i, j) = values[static_cast<size_t>(j)] * factor_at(scale.rows, row) *
                       factor_at(scale.columns, j);
      }
    }
    return sample;
  }

  // Adds the error that rounding the sampled rows to nearest causes in the products.
  void add_errors(const std::string& tensor, const std::vector<double>& inputs,
                  FormatLosses& errors) const {
    const compress::TensorScale scale = scale_of(tensor);
    const DoubleMatrix sample = sample_of(tensor, scale);
    for (size_t format = 0; format < kFormats; ++format) {
      DoubleMatrix nearest = sample;
      compress::round_to(kCandidates[format], nearest);
      for (int64_t j = 0; j < sample.columns(); ++j) {
        const double s = factor_at(scale.columns, j);
        const double column_weight = inputs[static_cast<size_t>(j)] / (s * s);
        for (int64_t i = 0; i < sample.rows(); ++i) {
          const double error = sample(i, j) - nearest(i, j);
          errors[format] += column_weight * error * error;
        }
      }
    }
  }

  const compress::CompressionInputs& inputs_;
  const fs::path& statistics_;
  const fs::path& folder_;
  fs::path path_;
  std::string prefix_;
  LossesByName saved_;
  compress::RoundedByText rounded_;
  std::vector<std::vector<text::TokenId>> probe_sequences_;
  std::optional<compress::DenseReference> reference_;
  MlpSquares mlp_;  // of the layer that was read last
};

}  // namespace

bool rounding_is_measured(const fs::path& folder, const io::ModelConfig& config) {
  const auto saved = read_losses(folder / kFileName);
  const auto parts = config.num_hidden_layers * static_cast<int64_t>(kParts);
  return saved.ok() && std::ssize(*saved) >= parts + 2;
}

Result<RoundingLosses> measure_rounding(const compress::CompressionInputs& inputs,
                                        const fs::path& statistics, const fs::path& folder) {
  return RoundingMeasurement(inputs, statistics, folder).run();
}

}  // namespace neuronmm::fit
