#include "model/model_rows.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "io/compression_record.h"
#include "io/quantization.h"
#include "model/transformer.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;
using ops::LinearWeight;

// Returns the row of a matrix. Its bytes are the stored ones, including scales.
MatrixRow matrix_row(const LinearWeight& weight) {
  return {weight.in_features(), weight.rank(), weight.out_features(), weight.parameters(),
          weight.stored_bytes()};
}

LayerRows layer_rows(const ops::MlpWeight& mlp) {
  LayerRows rows{
      {matrix_row(mlp.gate), matrix_row(mlp.up), matrix_row(mlp.down)}, {}, mlp.neurons()};
  const ops::WeightView& map = mlp.in.map_t;
  if (!mlp.in.empty()) {
    rows.input = {mlp.in.features(), mlp.in.rank(), mlp.in.rank(), map.size(), map.stored_bytes()};
  }
  return rows;
}

Json row_json(const MatrixRow& row, const io::ModelConfig& config) {
  return {{"in_features", row.in},
          {"rank", number_or_null(row.rank)},
          {"out_features", row.out},
          {"kept_share", kept_share(row, config)},
          {"bytes", row.bytes}};
}

Json layers_json(const std::vector<LayerRows>& layers, const io::ModelConfig& config) {
  Json list = Json::array();
  for (const LayerRows& layer : layers) {
    const MatrixRow total = layer.total();
    Json row = {{"neurons", layer.neurons},
                {"kept_share", kept_share(total, config, std::ssize(layer.matrices))},
                {"bytes", total.bytes}};
    if (layer.input.rank > 0) row["input"] = row_json(layer.input, config);
    for (size_t i = 0; i < kMatrixNames.size(); ++i) {
      row[kMatrixNames[i]] = row_json(layer.matrices[i], config);
    }
    list.push_back(std::move(row));
  }
  return list;
}

std::string weights_text(const io::ModelConfig& config, const io::Checkpoint& checkpoint) {
  if (config.quantization) return io::quantization_text(*config.quantization);
  return checkpoint.foreign_text().empty() ? "floats" : checkpoint.foreign_text();
}

}  // namespace

Result<std::vector<LayerRows>> read_layers(const io::Checkpoint& checkpoint,
                                           const io::ModelConfig& config) {
  std::vector<LayerRows> layers;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    NMM_ASSIGN(const model::LayerWeights weights, model::layer_weights(checkpoint, config, i));
    layers.push_back(layer_rows(weights.mlp));
  }
  return layers;
}

double kept_share(const MatrixRow& row, const io::ModelConfig& config, int64_t matrices) {
  const int64_t dense = matrices * config.hidden_size * config.intermediate_size;
  return static_cast<double>(row.parameters) / static_cast<double>(dense);
}

double bits_per_weight(int64_t bytes, int64_t parameters) {
  return parameters == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
}

int64_t dense_bytes(const io::ModelConfig& config, const io::Checkpoint& checkpoint,
                    const std::vector<LayerRows>& layers) {
  // Bytes per weight. Assumed: a rounded model was made from bf16.
  constexpr double kBf16 = 2.0;
  int64_t bytes = 0, parameters = 0;
  for (const LayerRows& layer : layers) {
    bytes += layer.total().bytes;
    parameters += layer.total().parameters;
  }
  // Attention and tables may be rounded, too.
  const double others = config.quantization
                            ? kBf16 * static_cast<double>(checkpoint.parameters() - parameters)
                            : static_cast<double>(checkpoint.size_bytes() - bytes);
  const double per_weight = config.quantization || parameters == 0
                                ? kBf16
                                : static_cast<double>(bytes) / static_cast<double>(parameters);
  const double dense = static_cast<double>(3 * config.hidden_size * config.intermediate_size *
                                           config.num_hidden_layers);
  return static_cast<int64_t>(others + dense * per_weight);
}

std::string dtypes_of(const io::Checkpoint& checkpoint) {
  std::vector<std::string_view> names;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const std::string_view dtype = type_name(tensor);
    if (std::ranges::find(names, dtype) == names.end()) names.push_back(dtype);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Json model_json(const io::ModelConfig& config, const io::Checkpoint& checkpoint,
                const std::vector<LayerRows>& layers) {
  Json json = {
      {"model", checkpoint.folder().string()},
      {"architecture", io::architecture_name(config.architecture)},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"num_key_value_heads", config.num_key_value_heads},
      {"head_dim", config.head_dim},
      {"vocab_size", config.vocab_size},
      {"max_position_embeddings", config.max_position_embeddings},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"dtypes", dtypes_of(checkpoint)},
      {"weights", weights_text(config, checkpoint)},
      {"bits_per_weight", bits_per_weight(checkpoint.size_bytes(), checkpoint.parameters())},
      {"parameters", checkpoint.parameters()},
      {"bytes", checkpoint.size_bytes()},
      {"layers", layers_json(layers, config)}};
  if (config.compression) {
    const io::CompressionRecord& record = *config.compression;
    json["compression"] = {
        {"form", record.form},         {"method", record.method},
        {"ratio", record.ratio},       {"block", record.block},
        {"allocate", record.allocate}, {"calibration", io::calibration_json(record.calibration)}};
    if (!record.align.empty()) json["compression"]["align"] = record.align;
  }
  return json;
}

}  // namespace neuronmm::apps
