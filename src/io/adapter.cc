#include "io/adapter.h"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "io/adapter_config.h"
#include "io/families/tensor_names.h"
#include "io/model_config.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using TensorMap = std::map<std::string, TensorView>;

constexpr std::string_view kModelName = "model.";
constexpr const char* kHeadName = "lm_head.weight";

// The adapters that were chosen, by the models' paths.
struct ChosenAdapters {
  std::mutex mutex;
  std::map<fs::path, fs::path> adapters;
};
ChosenAdapters& chosen_adapters() {
  static ChosenAdapters chosen;
  return chosen;
}

// Returns a path that is the same however the model is named.
fs::path adapter_key_of(const fs::path& model) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(model, error);
  return error || whole.empty() ? model : whole;
}

LowRankUpdate::Values adapter_floats(const TensorView& tensor) {
  auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(tensor.size()));
  to_floats(tensor, 0, tensor.size(), values->data());
  return values;
}

LowRankUpdate::Values transposed_adapter_floats(const TensorView& matrix) {
  const LowRankUpdate::Values values = adapter_floats(matrix);
  const auto rows = static_cast<size_t>(matrix.rows()), columns = values->size() / rows;
  auto transposed = std::make_shared<std::vector<float>>(values->size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) (*transposed)[j * rows + i] = (*values)[i * columns + j];
  }
  return transposed;
}

// The change of an adapter to one tensor of the model. The views are rows of the adapter's tensors
// if the module is fused in the adapter and split in the model.
struct TensorChange {
  std::string module;                     // the name in the adapter, for messages
  const AdapterModule* update = nullptr;  // null if nothing is added
  TensorView left, magnitudes, bias;
  TensorView replacement;
};

class AdapterMerger {
 public:
  AdapterMerger(const fs::path& adapter, const fs::path& model, AdapterConfig config,
                ModelConfig model_config, TensorMap& tensors, MergedAdapter& merged)
      : file_((adapter / kAdapterFileName).string()),
        folder_(adapter),
        model_(model),
        config_(std::move(config)),
        model_config_(std::move(model_config)),
        tensors_(tensors),
        merged_(merged) {}

  Status run(const std::string& gguf_architecture) {
    NMM_TRY(check_modules());
    NMM_TRY(collect(gguf_architecture));
    NMM_TRY(untie());
    for (const auto& [name, change] : changes_) {
      NMM_TRY(apply(name, change));
      merged_.changed.insert(name);
    }
    describe();
    return {};
  }

 private:
  // Compares the file with adapter_config.json.
  Status check_modules() const {
    for (const auto& [name, module] : merged_.adapter.modules) {
      const double rank = config_.rank_of(name);
      if (static_cast<double>(module.rank()) != rank)
        return fail("{}: module {:?}: expected rank {} as {} says, found matrices of rank {}",
                    file_, name, rank, kAdapterConfigName, module.rank());
      if (module.magnitudes.empty() == config_.has_magnitudes && !module.of_table)
        return fail("{}: module {:?} has {}lora_magnitude_vector, but \"use_dora\" in {} is {}",
                    file_, name, config_.has_magnitudes ? "no " : "a ", kAdapterConfigName,
                    config_.has_magnitudes);
    }
    return {};
  }

  // Finds the tensors of the model that the adapter's tensors belong to. Each tensor of the adapter
  // is a group of its own, because a fused one becomes several.
  Status collect(const std::string& gguf_architecture) {
    std::vector<NamedTensors> groups;
    std::vector<std::pair<std::string, TensorView TensorChange::*>> sources;
    const auto add = [&](const std::string& module, const std::string& name,
                         const TensorView& tensor, TensorView TensorChange::*member) {
      if (tensor.empty()) return;
      groups.push_back({{{name, tensor}}, {}, {}});
      sources.emplace_back(module, member);
    };
    for (const auto& [name, module] : merged_.adapter.modules) {
      add(name, name + ".weight", module.b, &TensorChange::left);
      add(name, name + ".weight", module.magnitudes, &TensorChange::magnitudes);
      add(name, name + ".bias", module.bias, &TensorChange::bias);
    }
    for (const auto& [name, tensor] : merged_.adapter.replacements)
      add(name, name, tensor, &TensorChange::replacement);
    NMM_TRY(use_canonical_names(model_, gguf_architecture, file_, groups));
    for (size_t i = 0; i < groups.size(); ++i)
      NMM_TRY(collect_group(groups[i], sources[i].first, sources[i].second));
    if (changes_.empty())
      return fail("{}: all tensors belong to parts of the model that are not run here", file_);
    return {};
  }

  Status collect_group(NamedTensors& group, const std::string& module,
                       TensorView TensorChange::*member) {
    if (group.tensors.empty()) ++left_out_;
    for (auto& bytes : group.owned) merged_.owned.push_back(std::move(bytes));
    for (const auto& [canonical, tensor] : group.tensors) {
      const auto name = name_in_model(canonical);
      if (!name) return no_match(module, canonical);
      TensorChange& change = changes_[*name];
      change.module = module;
      change.*member = tensor;
      const auto found = merged_.adapter.modules.find(module);
      if (member == &TensorChange::left) change.update = &found->second;
    }
    return {};
  }

  // Returns the model's name of a tensor, which may have "model." at its beginning or not. The LM
  // head of a tied model counts as present.
  std::optional<std::string> name_in_model(const std::string& canonical) const {
    if (tensors_.contains(canonical) || canonical == kHeadName) return canonical;
    if (tensors_.contains(std::string(kModelName) + canonical))
      return std::string(kModelName) + canonical;
    if (!canonical.starts_with(kModelName)) return std::nullopt;
    const std::string without = canonical.substr(kModelName.size());
    return tensors_.contains(without) ? std::optional(without) : std::nullopt;
  }

  Error no_match(const std::string& module, const std::string& canonical) const {
    const bool of_mlp = model_config_.compression && canonical.find(".mlp.") != canonical.npos;
    return fail("{}: {:?} matches no tensor of {}{}", file_, module, model_.string(),
                of_mlp ? ", whose MLPs were compressed; merge the adapter into the original model "
                         "and compress the result"
                       : base_text("; the adapter belongs to another model, "));
  }

  // Returns which model the adapter was trained for, if it says so.
  std::string base_text(std::string_view before) const {
    return config_.base.empty() ? std::string() : fmt::format("{}{:?}", before, config_.base);
  }

  std::string table_name() const {
    return tensors_.contains("embed_tokens.weight") ? "embed_tokens.weight"
                                                    : "model.embed_tokens.weight";
  }

  Status untie() {
    const bool tied = model_config_.tie_word_embeddings ||
                      (model_config_.tie_by_weights && !tensors_.contains(kHeadName));
    const std::string table = table_name();
    if (!changes_.contains(kHeadName) && !(tied && changes_.contains(table))) return {};
    const auto found = tensors_.find(table);
    if (!tied && tensors_.contains(kHeadName)) return {};
    if (found == tensors_.end())
      return fail("{}: tensor {:?} is missing, which is the LM head, too", model_.string(), table);
    if (config_.tied_tables)
      return fail(
          "{}: \"ensure_weight_tying\" with an adapter of the embedding table or the LM head "
          "cannot be merged here; merge it in Python",
          (folder_ / kAdapterConfigName).string());
    tensors_[kHeadName] = found->second;
    merged_.unties = true;
    return {};
  }

  Status apply(const std::string& name, const TensorChange& change) {
    TensorView& tensor = tensors_.at(name);
    if (!is_float(tensor.dtype))
      return fail(
          "{}: tensor {:?} is rounded to few bits, so that {} cannot be merged; merge it into the "
          "original model (neuronmm import ORIGINAL --adapter DIR -o NEW --bits 8)",
          model_.string(), name, file_);
    const DType dtype = merged_dtype(tensor);
    if (coded(tensor)) {
      ++coded_;
      bytes_before_ += tensor.size_bytes();
      bytes_after_ += tensor.size() * dtype_size_bytes(dtype);
    }
    if (!change.replacement.empty()) {
      NMM_TRY(check_shape(name, change, change.replacement.shape, tensor.shape));
      tensor = replaced(change.replacement, dtype);
    }
    if (change.update != nullptr) {
      NMM_TRY(check_shape(name, change, shape_of(change), tensor.shape));
      merged_.tensors.push_back(
          std::make_unique<const MergedTensor>(tensor, update_of(change), dtype));
      tensor = merged_.tensors.back()->view();
    }
    if (!change.bias.empty()) {
      NMM_TRY(check_shape(name, change, change.bias.shape, tensor.shape));
      tensor = with_bias(tensor, change, dtype);
    }
    return {};
  }

  static bool coded(const TensorView& tensor) {
    return tensor.foreign != nullptr && tensor.foreign->name() != "F16";
  }

  static Shape shape_of(const TensorChange& change) {
    const AdapterModule& module = *change.update;
    if (module.of_table) return {module.a.columns(), module.b.rows()};
    return {change.left.rows(), module.a.columns()};
  }

  Status check_shape(const std::string& name, const TensorChange& change, const Shape& found,
                     const Shape& expected) const {
    if (found == expected) return {};
    const bool of_table = name == kHeadName || name == table_name();
    const bool other_rows = of_table && found.size() == 2 && found[0] != expected[0];
    return fail("{}: {:?} is for a tensor of shape {}, but {:?} of {} has {}{}", file_,
                change.module, shape_string(found), name, model_.string(), shape_string(expected),
                other_rows ? "; the adapter has other tokens than the model: merge it in Python "
                             "after resize_token_embeddings()"
                           : base_text("; the adapter belongs to another model, "));
  }

  // Modules whose rows are split share the right matrix.
  LowRankUpdate::Values right_of(const AdapterModule& module) {
    LowRankUpdate::Values& right = rights_[&module];
    if (right == nullptr)
      right = module.of_table ? transposed_adapter_floats(module.b) : adapter_floats(module.a);
    return right;
  }

  LowRankUpdate update_of(const TensorChange& change) {
    const AdapterModule& module = *change.update;
    return {
        .rank = module.rank(),
        .left = module.of_table ? transposed_adapter_floats(module.a) : adapter_floats(change.left),
        .right = right_of(module),
        .scale = static_cast<float>(config_.scale_of(change.module)),
        .magnitudes = change.magnitudes.empty() ? nullptr : adapter_floats(change.magnitudes)};
  }

  // Vectors are small, so their rounded values are kept. Matrices are rounded when they are read.
  TensorView replaced(const TensorView& replacement, DType dtype) {
    if (replacement.dtype == dtype) return replacement;
    if (replacement.shape.size() == 1) return vector_of(*adapter_floats(replacement), dtype);
    merged_.tensors.push_back(
        std::make_unique<const MergedTensor>(replacement, LowRankUpdate(), dtype));
    return merged_.tensors.back()->view();
  }

  TensorView with_bias(const TensorView& tensor, const TensorChange& change, DType dtype) {
    std::vector<float> values = *adapter_floats(tensor);
    const LowRankUpdate::Values added = adapter_floats(change.bias);
    const auto scale = static_cast<float>(config_.scale_of(change.module));
    for (size_t i = 0; i < values.size(); ++i) values[i] += scale * (*added)[i];
    return vector_of(values, dtype);
  }

  TensorView vector_of(const std::vector<float>& values, DType dtype) {
    auto bytes = std::make_shared<std::vector<std::byte>>();
    append_rounded(dtype, values.data(), std::ssize(values), *bytes);
    const TensorView view = {dtype, {std::ssize(values)}, bytes->data()};
    merged_.owned.push_back(std::move(bytes));
    return view;
  }

  void describe() {
    std::string text =
        fmt::format("{}: this adapter{} is merged into {} tensors of {}", folder_.string(),
                    base_text(" of "), changes_.size(), model_.string());
    if (merged_.unties) text += "; its LM head is a table of its own now";
    if (coded_ > 0)
      text += fmt::format(
          "; {} of them leave their blocks of few bits and become floats, {:.0f} MB "
          "instead of {:.0f} MB",
          coded_, static_cast<double>(bytes_after_) / 1e6,
          static_cast<double>(bytes_before_) / 1e6);
    if (left_out_ > 0)
      text += fmt::format("; {} tensors of parts that are not run are left out", left_out_);
    merged_.text = text;
  }

  const std::string file_;
  const fs::path& folder_;
  const fs::path& model_;
  const AdapterConfig config_;
  const ModelConfig model_config_;
  TensorMap& tensors_;
  MergedAdapter& merged_;
  std::map<std::string, TensorChange> changes_;
  std::map<const AdapterModule*, LowRankUpdate::Values> rights_;
  int64_t left_out_ = 0, coded_ = 0, bytes_before_ = 0, bytes_after_ = 0;
};

}  // namespace

void use_adapter(const fs::path& model, const fs::path& adapter) {
  ChosenAdapters& chosen = chosen_adapters();
  const std::scoped_lock lock(chosen.mutex);
  chosen.adapters[adapter_key_of(model)] = adapter;
}

std::optional<fs::path> adapter_of(const fs::path& model) {
  ChosenAdapters& chosen = chosen_adapters();
  const std::scoped_lock lock(chosen.mutex);
  if (chosen.adapters.empty()) return std::nullopt;
  const auto found = chosen.adapters.find(adapter_key_of(model));
  return found == chosen.adapters.end() ? std::nullopt : std::optional(found->second);
}

Result<std::shared_ptr<const MergedAdapter>> merge_adapter(const fs::path& adapter,
                                                           const fs::path& model,
                                                           const std::string& gguf_architecture,
                                                           TensorMap& tensors) {
  NMM_ASSIGN(AdapterConfig config, AdapterConfig::load(adapter));
  auto merged = std::make_shared<MergedAdapter>();
  NMM_ASSIGN(merged->adapter, AdapterFile::open(adapter));
  NMM_ASSIGN(ModelConfig model_config, ModelConfig::load(model / "config.json"));
  NMM_TRY(
      AdapterMerger(adapter, model, std::move(config), std::move(model_config), tensors, *merged)
          .run(gguf_architecture));
  return std::shared_ptr<const MergedAdapter>(std::move(merged));
}

}  // namespace neuronmm::io
