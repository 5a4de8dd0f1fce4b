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

// Returns the row of a matrix of `dense` parameters without compression. Its bytes are the stored
// ones, including scales.
MatrixRow matrix_row(const LinearWeight& weight, int64_t dense) {
  return {weight.in_features(), weight.rank(),         weight.out_features(),
          weight.parameters(),  weight.stored_bytes(), dense};
}

LayerRows layer_rows(const ops::MlpWeight& mlp, int64_t dense) {
  LayerRows rows{
      {matrix_row(mlp.gate, dense), matrix_row(mlp.up, dense), matrix_row(mlp.down, dense)},
      {},
      {},
      mlp.neurons()};
  const ops::WeightView& map = mlp.in.map_t;
  if (!mlp.in.empty()) {
    rows.input = {mlp.in.features(), mlp.in.rank(),      mlp.in.rank(),
                  map.size(),        map.stored_bytes(), dense};
  }
  return rows;
}

// Adds up the parameters and bytes of all experts. The sizes are those of the largest one.
LayerRows layer_rows(const ops::MixtureWeight& mixture, int64_t dense_of_expert) {
  LayerRows rows;
  const auto basis_row = [&](const LinearWeight& basis, int64_t rank) {
    MatrixRow row = matrix_row(basis, dense_of_expert);
    row.rank = rank;
    return row;
  };
  if (!mixture.input.w_t.empty()) rows.input = basis_row(mixture.input, mixture.expert_in());
  if (!mixture.output.w_t.empty()) rows.output = basis_row(mixture.output, mixture.expert_out());
  for (const ops::MlpWeight& expert : mixture.experts) {
    const LayerRows of_expert = layer_rows(expert, dense_of_expert);
    if (rows.experts++ == 0) {
      rows.matrices = of_expert.matrices;
      rows.neurons = of_expert.neurons;
      continue;
    }
    rows.neurons = std::max(rows.neurons, of_expert.neurons);
    for (size_t i = 0; i < rows.matrices.size(); ++i) {
      rows.matrices[i].parameters += of_expert.matrices[i].parameters;
      rows.matrices[i].bytes += of_expert.matrices[i].bytes;
      rows.matrices[i].in = std::max(rows.matrices[i].in, of_expert.matrices[i].in);
      rows.matrices[i].out = std::max(rows.matrices[i].out, of_expert.matrices[i].out);
      rows.matrices[i].dense += of_expert.matrices[i].dense;
    }
  }
  return rows;
}

LayerRows layer_rows(const model::LayerWeights& weights, const io::ModelConfig& config) {
  if (weights.mixture) {
    return layer_rows(*weights.mixture, config.hidden_size * config.experts->width);
  }
  return layer_rows(weights.mlp, config.hidden_size * config.intermediate_size);
}

Json row_json(const MatrixRow& row) {
  return {{"in_features", row.in},
          {"rank", number_or_null(row.rank)},
          {"out_features", row.out},
          {"kept_share", kept_share(row)},
          {"bytes", row.bytes}};
}

Json layers_json(const std::vector<LayerRows>& layers) {
  Json list = Json::array();
  for (const LayerRows& layer : layers) {
    const MatrixRow total = layer.total();
    Json row = {
        {"neurons", layer.neurons}, {"kept_share", kept_share(total)}, {"bytes", total.bytes}};
    if (layer.experts > 0) row["experts"] = layer.experts;
    if (layer.input.rank > 0) row["input"] = row_json(layer.input);
    if (layer.output.rank > 0) row["output"] = row_json(layer.output);
    for (size_t i = 0; i < kMatrixNames.size(); ++i) {
      row[kMatrixNames[i]] = row_json(layer.matrices[i]);
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
    layers.push_back(layer_rows(weights, config));
  }
  return layers;
}

double kept_share(const MatrixRow& row) {
  return static_cast<double>(row.parameters) / static_cast<double>(row.dense);
}

double bits_per_weight(int64_t bytes, int64_t parameters) {
  return parameters == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
}

int64_t dense_bytes(const io::ModelConfig& config, const io::Checkpoint& checkpoint,
                    const std::vector<LayerRows>& layers) {
  // Bytes per weight. Assumed: a rounded model was made from bf16.
  constexpr double kBf16 = 2.0;
  int64_t bytes = 0, parameters = 0, dense = 0;
  for (const LayerRows& layer : layers) {
    bytes += layer.total().bytes;
    parameters += layer.total().parameters;
    dense += layer.total().dense;
  }
  // Attention and tables may be rounded, too.
  const double others = config.quantization
                            ? kBf16 * static_cast<double>(checkpoint.parameters() - parameters)
                            : static_cast<double>(checkpoint.size_bytes() - bytes);
  const double per_weight = config.quantization || parameters == 0
                                ? kBf16
                                : static_cast<double>(bytes) / static_cast<double>(parameters);
  return static_cast<int64_t>(others + static_cast<double>(dense) * per_weight);
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
      {"layers", layers_json(layers)}};
  if (config.experts) {
    json["num_experts"] = config.experts->count;
    json["num_experts_per_tok"] = config.experts->active;
    json["expert_width"] = config.experts->width;
  }
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
