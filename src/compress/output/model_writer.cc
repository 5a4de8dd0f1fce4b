#include "compress/output/model_writer.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "compress/factors/narrow_experts.h"
#include "compress/factors/narrow_layers.h"
#include "compress/factors/narrow_mlp.h"
#include "compress/output/factors_file.h"
#include "compress/output/fused_sources.h"
#include "compress/output/tensor_writer.h"
#include "compress/rounding/codes_file.h"
#include "compress/rounding/map_refit.h"
#include "io/safetensors_writer.h"
#include "model/tensor_specs.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Endings of tensor names.
constexpr std::string_view kDenseEnding = "_proj.weight";
constexpr std::string_view kFirstEnding = "_v_proj.weight";   // u_t
constexpr std::string_view kSecondEnding = "_u_proj.weight";  // v_t

constexpr std::string_view kMapEnding = "_pivot_proj.weight";
constexpr std::string_view kMlpPart = ".mlp.";

// Returns the name of the map of pivots that belongs to a weight of an MLP, or nothing if there is
// none. The map is the weight's own, or the one of the input that gate and up share.
std::string map_beside(const io::Checkpoint& checkpoint, std::string_view name) {
  const size_t part = name.find(kMlpPart);
  if (part == std::string_view::npos || !name.ends_with(kDenseEnding)) return {};
  const std::string stem(name.substr(0, name.size() - kDenseEnding.size()));
  if (stem.ends_with("_pivot")) return {};
  const std::string own = stem + std::string(kMapEnding);
  const std::string shared =
      stem.substr(0, part + kMlpPart.size()) + "input" + std::string(kMapEnding);
  if (checkpoint.has(own)) return own;
  return !stem.ends_with("down") && checkpoint.has(shared) ? shared : std::string();
}

// Passes on the weight that replaces `exact` when its map `before` is rounded. NaN and infinity are
// passed on, so that the rounding can name the tensor in its error.
Status visit_fitted(DoubleMatrix exact, DoubleMatrix before, const LowBitFormat& format,
                    bool of_output, const TensorSource::Use& use) {
  const Shape shape = {exact.rows(), exact.columns()};
  const auto visit = [&](const DoubleMatrix& weight) {
    const auto bytes = to_checkpoint(weight, DType::kF32);
    return use({DType::kF32, shape, bytes.data()});
  };
  if (!exact.all_finite() || !before.all_finite()) return visit(exact);
  DoubleMatrix after = before;
  round_to(format, after);  // its groups run along rows, so round before transposing
  if (!of_output) {
    exact = transposed(exact);
    before = transposed(before);
    after = transposed(after);
  }
  NMM_ASSIGN(DoubleMatrix fitted, fitted_to_rounded_map(exact, before, after));
  return visit(of_output ? fitted : transposed(fitted));
}

// A tensor of a mixture: "model.layers.3.mlp.experts.5.gate_proj.weight", or one of the router.
struct ExpertTensor {
  int64_t layer = 0;
  int64_t expert = -1;      // -1: the router
  std::string_view prefix;  // "model.layers.3.mlp."
  std::string_view rest;    // "gate_proj.weight", "router.weight"
};
std::optional<ExpertTensor> expert_tensor(std::string_view name) {
  constexpr std::string_view kLayers = "layers.", kExperts = "experts.", kRouter = "router.";
  const auto number_at = [&](size_t first, int64_t& number) {
    const auto [stop, error] =
        std::from_chars(name.data() + first, name.data() + name.size(), number);
    return error == std::errc() ? static_cast<size_t>(stop - name.data()) : name.size();
  };
  const size_t layers = name.find(kLayers), part = name.find(kMlpPart);
  if (layers == std::string_view::npos || part == std::string_view::npos) return std::nullopt;
  ExpertTensor found;
  number_at(layers + kLayers.size(), found.layer);
  found.prefix = name.substr(0, part + kMlpPart.size());
  found.rest = name.substr(found.prefix.size());
  if (found.rest.starts_with(kRouter)) return found;
  if (!found.rest.starts_with(kExperts)) return std::nullopt;
  const size_t dot = number_at(found.prefix.size() + kExperts.size(), found.expert);
  if (dot >= name.size() || name[dot] != '.') return std::nullopt;
  found.rest = name.substr(dot + 1);
  return found;
}

// Passes on these rows of a matrix, or elements of a vector.
Status visit_chosen(const TensorView& tensor, const std::vector<int32_t>& rows,
                    const TensorSource::Use& use) {
  const int64_t columns = tensor.shape.size() == 1 ? 1 : tensor.columns();
  const DType dtype = written_dtype(tensor.dtype);
  std::vector<std::byte> bytes;
  std::vector<float> row(static_cast<size_t>(columns));
  for (const int32_t i : rows) {
    to_floats(tensor, i * columns, columns, row.data());
    append_rounded(dtype, row.data(), columns, bytes);
  }
  Shape shape = tensor.shape;
  shape[0] = std::ssize(rows);
  return use({dtype, shape, bytes.data()});
}

// Lists the tensors of the new model in the order of the old one. Each is copied, rounded, or
// replaced by factors or by a narrowed MLP.
class SourceList {
 public:
  // A replaced matrix may have any of three tensor names. compress finds one dense weight; quantize
  // finds the two factors of a compressed model and refits them.
  SourceList(const ModelSource& model, const std::optional<io::Quantization>& quantization)
      : model_(model), quantization_(quantization) {
    const std::string prefix = model::tensor_prefix(model.checkpoint);
    if (model.whole_mlps) {
      find_mlps(prefix);
      return;
    }
    for (const MatrixPlan& matrix : model.matrices) {
      if (matrix.rank == 0) continue;
      const std::string stem =
          fmt::format("{}layers.{}.mlp.{}", prefix, matrix.layer, matrix_name(matrix.matrix));
      for (const std::string_view ending : {kDenseEnding, kFirstEnding, kSecondEnding}) {
        replaced_[stem + std::string(ending)] = {stem, &matrix};
      }
    }
  }

  Result<std::vector<TensorSource>> make() {
    for (const auto& [name, tensor] : model_.checkpoint.tensors()) {
      if (const auto part = expert_tensor(name); model_.experts != nullptr && part) {
        NMM_TRY(add_of_experts(name, *part, tensor));
        continue;
      }
      if (const auto mlp = mlps_.find(name); mlp != mlps_.end()) {
        if (mlp->second.first) NMM_TRY(add_mlp(mlp->second));
        continue;
      }
      const auto found = replaced_.find(name);
      if (found == replaced_.end()) {
        add_kept(name, tensor);
      } else if (!name.ends_with(kFirstEnding)) {
        // Both factors take the place of the dense weight or, if it has factors, of the second one.
        add_factors(found->second, written_dtype(tensor.dtype));
      }
    }
    return std::move(sources_);
  }

 private:
  struct Replaced {
    std::string stem;
    const MatrixPlan* matrix = nullptr;
  };

  // Adds a tensor that stays in the model as it is or rounded. Tensors are visited one at a time,
  // and their pages are released.
  void add_kept(const std::string& name, const TensorView& tensor) {
    const io::TensorSpec spec = {name, written_dtype(tensor.dtype), tensor.shape};
    const auto rounding = quantization_ ? model::rounding_of(name, model_.config, *quantization_)
                                        : std::optional<LowBitFormat>();
    if (!model_.codes.empty() && rounding && model::is_linear(name, model_.config)) {
      const LowBitFormat format = *rounding;
      const auto stored = [folder = model_.codes, spec, format]() -> Result<ops::QuantizedWeight> {
        NMM_ASSIGN(const auto codes,
                   read_codes(folder, spec.name, format, spec.shape[0], spec.shape[1]));
        return ops::pack_codes(codes);
      };
      sources_.push_back({spec, format, {}, stored});
      return;
    }
    const std::string map = quantization_ ? map_beside(model_.checkpoint, name) : std::string();
    if (!map.empty()) {
      add(spec, [&model = model_, name, map,
                 format = quantization_->format_of(map)](const TensorSource::Use& use) {
        return visit_fitted(scaled_matrix(model.scales, name, model.checkpoint),
                            scaled_matrix(model.scales, map, model.checkpoint), format,
                            is_of_output(name), use);
      });
      return;
    }
    add(spec, [&model = model_, name, view = tensor](const TensorSource::Use& use) {
      Status used = visit_scaled(model.scales, name, view, use);
      model.checkpoint.release_pages();  // otherwise all pages read so far count as memory in use
      return used;
    });
  }

  // A dense weight of an MLP that is replaced as a whole. All tensors of the new MLP take the place
  // of the first one.
  struct ReplacedMlp {
    int64_t layer = 0;
    std::string prefix;
    bool first = false;
  };
  void find_mlps(const std::string& prefix) {
    for (int64_t layer = 0; layer < model_.config.num_hidden_layers; ++layer) {
      const std::string mlp = fmt::format("{}layers.{}.mlp.", prefix, layer);
      for (const MlpMatrix matrix : kMlpMatrices) {
        mlps_[mlp + std::string(matrix_name(matrix)) + std::string(kDenseEnding)] = {
            layer, mlp, matrix == MlpMatrix::kGate};
        const std::string bias = mlp + std::string(matrix_name(matrix)) + std::string(kBiasEnding);
        if (model_.checkpoint.has(bias)) mlps_[bias] = {layer, mlp, false};
      }
    }
  }
  Status add_mlp(const ReplacedMlp& mlp) {
    return add_file(narrowed_path(model_.work, mlp.layer), mlp.prefix);
  }
  // Adds all tensors of a file of the work folder.
  Status add_file(const fs::path& path, const std::string& prefix) {
    NMM_ASSIGN(const auto narrowed, io::SafetensorsFile::open_checked(path));
    for (const auto& [name, tensor] : narrowed.tensors()) {
      add({prefix + name, tensor.dtype, tensor.shape},
          [path, name = name](const TensorSource::Use& use) -> Status {
            NMM_ASSIGN(const auto file, io::SafetensorsFile::open(path));
            return use(file.tensors().at(name));
          });
    }
    return {};
  }

  // Adds a tensor of a mixture. All tensors of a narrowed expert take the place of its gate.
  Status add_of_experts(const std::string& name, const ExpertTensor& part,
                        const TensorView& tensor) {
    const std::vector<int32_t>& kept = model_.experts->kept[static_cast<size_t>(part.layer)];
    if (part.expert < 0) {
      const auto& bases = model_.experts->bases;
      if (part.rest == "router.weight" && !bases.empty() &&
          bases[static_cast<size_t>(part.layer)] != io::ExpertBases{}) {
        NMM_TRY(add_file(bases_path(model_.work, part.layer), std::string(part.prefix)));
      }
      Shape shape = tensor.shape;
      shape[0] = std::ssize(kept);
      add({name, written_dtype(tensor.dtype), shape},
          [&kept, view = tensor](const TensorSource::Use& use) {
            return visit_chosen(view, kept, use);
          });
      return {};
    }
    const auto place = std::ranges::find(kept, part.expert);
    if (place == kept.end()) return {};
    const std::string prefix = fmt::format("{}experts.{}.", part.prefix, place - kept.begin());
    if (model_.experts->narrowed) {
      if (part.rest != "gate_proj.weight") return {};
      return add_file(narrowed_expert_path(model_.work, part.layer, part.expert), prefix);
    }
    add({prefix + std::string(part.rest), written_dtype(tensor.dtype), tensor.shape},
        [&model = model_, view = tensor](const TensorSource::Use& use) {
          Status used = use(view);
          model.checkpoint.release_pages();
          return used;
        });
    return {};
  }

  static bool is_of_output(const std::string& name) {
    return name.ends_with(fmt::format("down{}", kDenseEnding));
  }

  // Adds both factors of a matrix. They come from files of the work folder, which are mapped one at
  // a time.
  void add_factors(const Replaced& replaced, DType dtype) {
    const MatrixPlan& matrix = *replaced.matrix;
    const auto add_factor = [&](std::string_view ending, Shape shape, const char* factor) {
      add({replaced.stem + std::string(ending), dtype, std::move(shape)},
          [&work = model_.work, &matrix, factor](const TensorSource::Use& use) -> Status {
            NMM_ASSIGN(const auto file, open_factors(work, matrix.layer, matrix.matrix));
            return use(file.tensors().at(factor));
          });
    };
    add_factor(kSecondEnding, {matrix.out_features, matrix.rank}, "v_t");
    add_factor(kFirstEnding, {matrix.rank, matrix.in_features}, "u_t");
  }

  // Adds a tensor. Linear weights of a quantized model are rounded while they are written.
  void add(io::TensorSpec spec, std::function<Status(const TensorSource::Use&)> visit) {
    std::optional<LowBitFormat> rounding;
    if (quantization_) rounding = model::rounding_of(spec.name, model_.config, *quantization_);
    sources_.push_back({std::move(spec), rounding, std::move(visit)});
  }

  const ModelSource& model_;
  const std::optional<io::Quantization>& quantization_;
  std::map<std::string, Replaced> replaced_;  // by the names of dense weights and of factors
  std::map<std::string, ReplacedMlp> mlps_;   // by the names of dense weights and biases
  std::vector<TensorSource> sources_;
};

}  // namespace

Status write_model(const ModelSource& source, const std::optional<io::Quantization>& quantization,
                   const fs::path& folder, Progress& progress, int64_t max_shard_bytes) {
  NMM_ASSIGN(auto tensors, SourceList(source, quantization).make());
  if (source.published) {
    tensors = fused_sources(std::move(tensors), source.config.architecture);
  }
  return write_tensors(tensors, source.config.architecture, folder, progress, max_shard_bytes);
}

}  // namespace neuronmm::compress
