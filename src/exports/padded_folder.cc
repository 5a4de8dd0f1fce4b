#include "exports/padded_folder.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "compress/output/fused_sources.h"
#include "compress/output/tensor_writer.h"
#include "compress/rounding/stored_format.h"
#include "gguf_out/dense_rows.h"
#include "gguf_out/source_model.h"
#include "io/file_identity.h"
#include "io/json_file.h"
#include "io/merged_tensor.h"
#include "io/model_files.h"
#include "io/model_folder.h"
#include "io/ordered_json.h"
#include "io/text_file.h"
#include "io/transformers_config.h"

namespace neuronmm::exports {
namespace {

namespace fs = std::filesystem;
using compress::TensorSource;
using gguf_out::SourceModel;

constexpr int64_t kPieceElements = int64_t{1} << 22;  // floats in memory at once, 16 MiB
// Kernels multiply blocks of this many neurons, so a size between them is no faster. Assumed.
constexpr int64_t kNeuronBlock = 64;

// A matrix of the new folder. Rows and columns beyond those of the model's matrix are zeros.
struct PaddedMatrix {
  std::string name;
  ops::LinearWeight weight;
  ops::Pivots input;  // the pivots that gate and up share
  int64_t rows, columns;
  DType dtype;
};

Status visit_padded(const io::Checkpoint& checkpoint, const PaddedMatrix& matrix,
                    const TensorSource::Use& use) {
  const auto stored = gguf_out::dense_rows(matrix.weight, matrix.input);
  const int64_t step = std::max<int64_t>(1, kPieceElements / matrix.columns);
  std::vector<float> values;
  std::vector<std::byte> bytes;
  for (int64_t first = 0; first < matrix.rows; first += step) {
    const int64_t count = std::min(step, matrix.rows - first);
    values.assign(static_cast<size_t>(count * matrix.columns), 0.0f);
    const int64_t some = std::clamp<int64_t>(stored->rows() - first, 0, count);
    parallel_ranges(some, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        stored->read(first + i, values.data() + i * matrix.columns);
    });
    NMM_TRY(compress::check_range(matrix.name, values, matrix.dtype));
    bytes.clear();
    append_rounded(matrix.dtype, values.data(), std::ssize(values), bytes);
    NMM_TRY(use({matrix.dtype, {count, matrix.columns}, bytes.data()}));
  }
  checkpoint.release_pages();
  return {};
}

// The numbers of neurons that all layers and all experts get.
struct PaddedSizes {
  int64_t mlp, expert = 0;
};

// Lists the tensors of the new folder.
class PaddedSources {
 public:
  PaddedSources(const SourceModel& model, const PaddedSizes& sizes, DType dtype)
      : model_(model), sizes_(sizes), dtype_(dtype) {}

  std::vector<TensorSource> make() {
    const int64_t hidden = model_.config.hidden_size, rows = model_.config.vocab_size;
    add("model.embed_tokens", {.w_t = model_.table}, rows, hidden);
    if (!model_.head.empty()) add("lm_head", {.w_t = model_.head}, rows, hidden);
    for (const model::LayerWeights& layer : model_.layers) add_layer(layer);
    add_vectors();
    return std::move(sources_);
  }

 private:
  void add_layer(const model::LayerWeights& layer) {
    const std::string name = fmt::format("model.layers.{}.", layer.layer);
    for (const auto& [part, weight] :
         {std::pair{"q", &layer.q}, {"k", &layer.k}, {"v", &layer.v}, {"o", &layer.o}})
      add(fmt::format("{}self_attn.{}_proj", name, part), *weight, weight->out_features(),
          weight->in_features());
    if (!layer.mixture) return add_mlp(name + "mlp.", layer.mlp, sizes_.mlp);
    const ops::MixtureWeight& mixture = *layer.mixture;
    add_router(name + "mlp.router", mixture.router);
    for (size_t i = 0; i < mixture.experts.size(); ++i)
      add_mlp(fmt::format("{}mlp.experts.{}.", name, i), mixture.experts[i], sizes_.expert);
  }

  void add_mlp(const std::string& prefix, const ops::MlpWeight& mlp, int64_t neurons) {
    const int64_t hidden = model_.config.hidden_size;
    add(prefix + "gate_proj", mlp.gate, neurons, hidden, mlp.in);
    add(prefix + "up_proj", mlp.up, neurons, hidden, mlp.in);
    add(prefix + "down_proj", mlp.down, hidden, neurons);
  }

  // Routers are never rounded to few bits, and keep their dtype.
  void add_router(const std::string& module, const ops::LinearWeight& router) {
    const DType dtype = std::exchange(dtype_, router.w_t.dtype);
    add(module, router, router.out_features(), router.in_features());
    dtype_ = dtype;
  }

  void add(const std::string& module, const ops::LinearWeight& weight, int64_t rows,
           int64_t columns, const ops::Pivots& input = {}) {
    const PaddedMatrix matrix = {module + ".weight", weight, input, rows, columns, dtype_};
    TensorSource source = {.spec = {matrix.name, dtype_, {rows, columns}}};
    source.visit = [&checkpoint = model_.checkpoint, matrix](const TensorSource::Use& use) {
      return visit_padded(checkpoint, matrix, use);
    };
    sources_.push_back(std::move(source));
    if (!weight.bias.empty()) add_vector(module + ".bias", weight.bias, rows);
  }

  void add_vector(const std::string& name, const TensorView& vector, int64_t size) {
    const DType dtype = io::merged_dtype(vector);
    TensorSource source = {.spec = {name, dtype, {size}}};
    source.visit = [vector, size, dtype](const TensorSource::Use& use) {
      std::vector<float> values(static_cast<size_t>(size));
      to_floats(vector, 0, vector.size(), values.data());
      std::vector<std::byte> bytes;
      append_rounded(dtype, values.data(), size, bytes);
      return use({dtype, {size}, bytes.data()});
    };
    names_.insert(name);
    sources_.push_back(std::move(source));
  }

  // Adds the norms and sinks, which all have one side and are never rounded.
  void add_vectors() {
    constexpr std::string_view kPrefix = "model.";
    for (const auto& [stored, tensor] : model_.checkpoint.tensors()) {
      std::string name = stored;
      if (!name.starts_with(kPrefix)) name.insert(0, kPrefix);
      const bool kind = name.ends_with(".weight") || name.ends_with(".sinks");
      const bool vector = tensor.shape.size() == 1 && is_float(tensor.dtype);
      if (kind && vector && io::is_of_decoder(name) && !names_.contains(name))
        add_vector(name, tensor, tensor.size());
    }
  }

  const SourceModel& model_;
  const PaddedSizes sizes_;
  DType dtype_;
  std::set<std::string> names_;  // of vectors
  std::vector<TensorSource> sources_;
};

// Returns the largest number of neurons, rounded up to a whole block if `most` are that many.
int64_t padded_neurons(int64_t largest, int64_t most) {
  const int64_t blocks = (largest + kNeuronBlock - 1) / kNeuronBlock * kNeuronBlock;
  return std::max(largest, std::min(blocks, most));
}

PaddedSizes padded_sizes(const SourceModel& model) {
  const io::ModelConfig& config = model.config;
  int64_t largest = 1;
  bool has_mlp = false;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (config.is_mixture(i)) continue;
    largest = std::max(largest, model.neurons(i));
    has_mlp = true;
  }
  PaddedSizes sizes = {.mlp = config.intermediate_size};
  if (has_mlp) sizes.mlp = padded_neurons(largest, config.intermediate_size);
  if (config.experts)
    sizes.expert =
        padded_neurons(std::max<int64_t>(model.expert_neurons(), 1), config.experts->width);
  return sizes;
}

// Returns the dtype of the matrices: that of the norms, which are never rounded to few bits.
DType padded_dtype(const SourceModel& model) {
  if (model.checkpoint.mounted()) return DType::kBF16;
  return io::merged_dtype(model.norm);
}

Status write_padded_config(const SourceModel& model, const PaddedSizes& sizes,
                           const fs::path& folder) {
  const std::string source = (model.checkpoint.folder() / "config.json").string();
  NMM_ASSIGN(std::string text, io::config_text(model.checkpoint));
  NMM_ASSIGN(text, io::with_published_classes(text, source));
  auto document = io::parse_ordered_json(text);
  for (const char* key : {"neuronmm_compression", "neuronmm_quantization"}) document.erase(key);
  document["intermediate_size"] = sizes.mlp;
  if (sizes.expert > 0) document[io::expert_width_key(model.config.architecture)] = sizes.expert;
  text = document.dump(io::kConfigIndent) + "\n";
  NMM_TRY(io::ModelConfig::parse(text, source));
  return io::write_text_file(folder / "config.json", text);
}

PaddedSummary summary_of(const SourceModel& model, const PaddedSizes& sizes,
                         const std::vector<TensorSource>& sources, DType dtype) {
  const io::ModelConfig& config = model.config;
  PaddedSummary summary = {.class_name = std::string(io::architecture_name(config.architecture)),
                           .dtype = std::string(dtype_name(dtype)),
                           .intermediate_size = sizes.mlp,
                           .expert_neurons = sizes.expert,
                           .parameters_before = model.checkpoint.parameters(),
                           .bytes_before = model.checkpoint.size_bytes(),
                           .notes = {}};
  for (const model::LayerWeights& layer : model.layers) {
    const int64_t neurons = layer.mixture ? 0 : sizes.mlp - layer.mlp.neurons();
    summary.zeros += 3 * config.hidden_size * neurons;
    if (!layer.mixture) continue;
    for (const ops::MlpWeight& expert : layer.mixture->experts)
      summary.zeros += 3 * config.hidden_size * (sizes.expert - expert.neurons());
  }
  for (const TensorSource& tensor : sources) {
    summary.bytes_after += io::size_bytes(tensor.spec);
    summary.parameters_after += TensorView{tensor.spec.dtype, tensor.spec.shape, nullptr}.size();
  }
  if (model.has_factors())
    summary.notes.emplace_back("factors and pivots are multiplied out, which saves nothing there");
  if (config.quantization)
    summary.notes.push_back(
        fmt::format("weights of {} bits become {}", model.bits(), dtype_name(dtype)));
  return summary;
}

}  // namespace

Result<PaddedSummary> write_padded(const PaddedRequest& request, Progress& progress,
                                   const io::BeforeOutput<PaddedSummary>& before_output) {
  using io::FolderWriter;
  const auto if_exists =
      request.force ? FolderWriter::IfExists::kReplace : FolderWriter::IfExists::kRefuse;
  NMM_TRY(FolderWriter::check(request.out, if_exists, request.model));
  NMM_ASSIGN(const auto identity, io::folder_identity(request.model));
  NMM_ASSIGN(const SourceModel model, SourceModel::open(request.model));
  const PaddedSizes sizes = padded_sizes(model);
  const DType dtype = padded_dtype(model);
  const io::Architecture architecture = model.config.architecture;
  const auto sources =
      compress::fused_sources(PaddedSources(model, sizes, dtype).make(), architecture);
  PaddedSummary summary = summary_of(model, sizes, sources, dtype);
  NMM_ASSIGN(auto output, FolderWriter::create(request.out, if_exists, request.model,
                                               FolderWriter::Resume::kNever));
  NMM_TRY(io::check_space(output.staging(), summary.bytes_after));
  NMM_TRY(compress::write_tensors(sources, architecture, output.staging(), progress));
  NMM_TRY(write_padded_config(model, sizes, output.staging()));
  NMM_ASSIGN(const auto left_out, io::copy_model_files(request.model, output.staging()));
  summary.notes.insert(summary.notes.end(), left_out.begin(), left_out.end());
  NMM_TRY(io::check_unchanged(request.model, identity));
  if (before_output) NMM_TRY(before_output(summary));
  NMM_TRY(output.commit());
  return summary;
}

}  // namespace neuronmm::exports
