#include "io/families/tensor_names.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "base/coded_values.h"
#include "io/families/expert_names.h"
#include "io/families/family.h"
#include "io/json_file.h"
#include "io/text_file.h"
#include "io/transformers_config.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

// A name cut into "model.layers.3.", "self_attn.q_proj" and ".weight". The module is empty if the
// tensor belongs to no layer.
struct NameParts {
  std::string_view layer, module, ending;
};

NameParts parts_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const size_t layers = name.find(kLayers);
  if (layers == std::string_view::npos) return {name, {}, {}};
  const size_t dot = name.find('.', layers + kLayers.size());
  const size_t last = name.rfind('.');
  if (dot == std::string_view::npos || last <= dot) return {name, {}, {}};
  return {name.substr(0, dot + 1), name.substr(dot + 1, last - dot - 1), name.substr(last)};
}

// Returns whether the tensor is of a part that a language model does not run.
bool is_of_other_part(std::string_view name) {
  constexpr std::string_view kParts[] = {"visual.", "vision_tower.", "multi_modal_projector.",
                                         "vision_model.", "audio_tower."};
  if (name.starts_with("model.")) name.remove_prefix(std::string_view("model.").size());
  return std::ranges::any_of(kParts, [&](auto part) { return name.starts_with(part); });
}

// Holds what a folder's config.json says.
struct Described {
  const Family& family;
  ModelConfig config;
};
std::optional<Described> describe(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  const auto text = read_text_file(path, kMaxConfigBytes);
  if (!text.ok()) return std::nullopt;
  const std::string strict = strict_json(*text);
  const auto document = parse_json_object(strict, path.string());
  if (!document.ok()) return std::nullopt;
  const auto architecture = read_architecture(JsonFields(*document, path.string()));
  auto config = ModelConfig::parse(strict, path.string());
  if (!architecture.ok() || !config.ok()) return std::nullopt;
  return Described{family_of(*architecture), std::move(config).value()};
}

// Translates the tensors of one folder.
class Translation {
 public:
  // Messages begin with `folder`.
  Translation(const fs::path& folder, const Family& family, const ModelConfig& config,
              NamedTensors& tensors)
      : folder_(folder),
        source_(folder.string()),
        names_(family.names),
        config_(config),
        owned_(tensors.owned),
        owned_codes_(tensors.owned_codes),
        found_(std::move(tensors.tensors)),
        tensors_(tensors.tensors),
        experts_(source_, names_, config_, tensors) {
    tensors_.clear();
  }

  Status run() {
    for (const auto& [stored, tensor] : found_) {
      const std::string name = without_part_prefix(stored);
      if (is_of_other_part(name)) continue;
      const NameParts parts = parts_of(name);
      const StackedExperts* const stacked =
          parts.module.empty() ? nullptr
                               : experts_.find(std::string_view(name).substr(parts.layer.size()));
      if (stacked != nullptr) {
        NMM_TRY(add_stacked(*stacked, parts, tensor, stored));
        continue;
      }
      const auto sliced = std::ranges::find(names_.sliced, parts.module, &SlicedModule::own);
      const bool plain = parts.ending == ".weight" || parts.ending == ".bias";
      if (sliced != names_.sliced.end() && plain) {
        NMM_TRY(add_slices(parts, *sliced, tensor, stored));
      } else {
        NMM_TRY(add(renamed(name, parts), permuted(parts, tensor), stored));
      }
    }
    return {};
  }

 private:
  std::string renamed(const std::string& name, const NameParts& parts) const {
    const auto [module, number] = numbered_module(parts.module);
    const auto found = std::ranges::find(names_.renamed, module, &RenamedModule::own);
    if (found == names_.renamed.end()) return name;
    return fmt::format("{}{}{}", parts.layer, with_number(found->canonical, number), parts.ending);
  }

  Status add_stacked(const StackedExperts& stacked, const NameParts& parts,
                     const TensorView& tensor, const std::string& stored) {
    stacked_.insert(stored);
    return experts_.divide(stacked, stored, tensor, found_,
                           [&](const std::string& name, const TensorView& part) {
                             return add(fmt::format("{}{}", parts.layer, name), part, stored);
                           });
  }

  // Returns the rows of a module that is stored inside another one.
  int64_t rows_of(std::string_view module) const {
    if (module.ends_with("q_proj")) return config_.num_attention_heads * config_.head_dim;
    if (module.ends_with("gate_proj") || module.ends_with("up_proj"))
      return config_.intermediate_size;
    return config_.num_key_value_heads * config_.head_dim;
  }

  Status add_slices(const NameParts& parts, const SlicedModule& sliced, const TensorView& tensor,
                    const std::string& stored) {
    int64_t expected = 0;
    for (const std::string_view part : sliced.parts) expected += part.empty() ? 0 : rows_of(part);
    const int64_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
    if (rows != expected)
      return fail("{}: tensor {:?}: expected {} rows (those of {} and {}), found shape {}",
                  folder_.string(), stored, expected, sliced.parts[0],
                  sliced.parts[2].empty() ? sliced.parts[1] : "its neighbours",
                  shape_string(tensor.shape));
    const int64_t row_bytes = tensor.size_bytes() / rows;
    int64_t first = 0;
    for (const std::string_view part : sliced.parts) {
      if (part.empty()) continue;
      TensorView slice = tensor;
      slice.shape.front() = rows_of(part);
      slice.data = tensor.data + first * row_bytes;
      first += rows_of(part);
      NMM_TRY(add(fmt::format("{}{}{}", parts.layer, part, parts.ending), slice, stored));
    }
    return {};
  }

  // Returns which row of the stored tensor becomes row `row` of permuted().
  int64_t stored_row(int64_t row) const {
    const int64_t half = config_.head_dim / 2, in_head = row % config_.head_dim;
    return row - in_head + in_head % half * 2 + in_head / half;
  }

  // Returns the tensor with the two elements of each pair half a head apart, if it is q or k of a
  // family that stores them side by side.
  TensorView permuted(const NameParts& parts, const TensorView& tensor) {
    const bool q = parts.module == "self_attn.q_proj", k = parts.module == "self_attn.k_proj";
    const int64_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
    const int64_t head = config_.head_dim;
    if (!names_.neighbouring_pairs || (!q && !k) || rows == 0 || rows % head != 0) return tensor;
    if (const CodedValues* const coded = coded_values(tensor); coded != nullptr) {
      std::vector<int64_t> order;
      for (int64_t row = 0; row < rows; ++row) {
        order.push_back(coded->first_row(tensor) + stored_row(row));
      }
      owned_codes_.push_back(std::make_shared<const CodedRows>(*coded, std::move(order)));
      return owned_codes_.back()->view();
    }
    const int64_t row_bytes = tensor.size_bytes() / rows;
    auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows * row_bytes));
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(bytes->data() + row * row_bytes, tensor.data + stored_row(row) * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
    TensorView view = tensor;
    view.data = bytes->data();
    owned_.push_back(std::move(bytes));
    return view;
  }

  Status add(std::string name, const TensorView& tensor, const std::string& stored) {
    const auto [before, is_new] = stored_as_.emplace(name, stored);
    if (is_new) {
      tensors_.emplace(std::move(name), tensor);
      return {};
    }
    const std::string& other = before->second;
    if (stacked_.contains(stored) || stacked_.contains(other)) {
      return fail(
          "{}: expected the experts of a layer either in one tensor or one by one, found both {:?} "
          "and {:?}; remove those that do not belong to the model",
          source_, other, stored);
    }
    return fail("{}: tensors {:?} and {:?} are both {:?}", source_, other, stored, name);
  }

  const fs::path& folder_;
  const std::string source_;
  const ModuleNames& names_;
  const ModelConfig& config_;
  std::vector<std::shared_ptr<const std::vector<std::byte>>>& owned_;
  std::vector<std::shared_ptr<const CodedValues>>& owned_codes_;
  const std::map<std::string, TensorView> found_;
  std::map<std::string, TensorView>& tensors_;
  ExpertViews experts_;
  // The names in the file of the tensors so far, by their canonical names.
  std::map<std::string, std::string> stored_as_;
  std::set<std::string> stacked_;  // those that were divided
};

}  // namespace

std::string without_part_prefix(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
      {"model.language_model.", "model."},
      {"language_model.model.", "model."},
      {"language_model.lm_head.", "lm_head."}};
  for (const auto& [prefix, replacement] : kPrefixes) {
    if (name.starts_with(prefix))
      return fmt::format("{}{}", replacement, name.substr(prefix.size()));
  }
  return std::string(name);
}

Status use_canonical_names(const fs::path& folder, NamedTensors& tensors) {
  const auto described = describe(folder);
  if (!described) return {};
  const ModuleNames& names = described->family.names;
  const bool rewritten = described->family.rewrite != nullptr;
  if (!rewritten && names.renamed.empty() && names.sliced.empty() && names.stacked.empty()) {
    return {};
  }
  return Translation(folder, described->family, described->config, tensors).run();
}

Status use_canonical_names(const fs::path& folder, std::string_view gguf_architecture,
                           const fs::path& source, std::vector<NamedTensors>& groups) {
  const auto described = describe(folder);
  if (!described) return fail("{}: expected a readable config.json", folder.string());
  const Family* family = &described->family;
  for (const Family* const other : families()) {
    const auto& files = other->gguf;
    if (std::ranges::find(files, gguf_architecture, &GgufFamily::architecture) == files.end())
      continue;
    family = other;
    break;
  }
  for (NamedTensors& group : groups) {
    NMM_TRY(Translation(source, *family, described->config, group).run());
  }
  return {};
}

std::string stored_name(Architecture architecture, std::string_view canonical) {
  const NameParts parts = parts_of(canonical);
  const auto [pattern, number] = numbered_module(parts.module);
  for (const RenamedModule& module : family_of(architecture).names.renamed) {
    if (module.canonical == pattern)
      return fmt::format("{}{}{}", parts.layer, with_number(module.own, number), parts.ending);
  }
  return std::string(canonical);
}

std::optional<FusedModule> fused_module(Architecture architecture, std::string_view canonical) {
  const NameParts parts = parts_of(canonical);
  for (const SlicedModule& sliced : family_of(architecture).names.sliced) {
    const auto found = std::ranges::find(sliced.parts, parts.module);
    if (parts.module.empty() || found == sliced.parts.end()) continue;
    return FusedModule{fmt::format("{}{}{}", parts.layer, sliced.own, parts.ending),
                       found - sliced.parts.begin(), sliced.parts[2].empty() ? 2 : 3};
  }
  return std::nullopt;
}

std::optional<StackedModule> stacked_module(Architecture architecture, std::string_view canonical) {
  const ModuleNames& names = family_of(architecture).names;
  if (!names.only_stacked) return std::nullopt;
  const NameParts parts = parts_of(canonical);
  const auto [pattern, number] = numbered_module(parts.module);
  int64_t expert = 0;
  const char* const digits_end = number.data() + number.size();
  if (std::from_chars(number.data(), digits_end, expert) !=
      std::from_chars_result{digits_end, std::errc()})
    return std::nullopt;
  const std::string within = fmt::format("{}{}", pattern, parts.ending);
  for (const StackedExperts& stacked : names.stacked) {
    for (size_t i = 0; i < stacked.parts.size(); ++i) {
      if (within != fmt::format("mlp.experts.#.{}", stacked.parts[i])) continue;
      return StackedModule{fmt::format("{}{}", parts.layer, stacked.own),
                           expert,
                           static_cast<int64_t>(i),
                           stacked.parts[1].empty() ? 1 : 2,
                           stacked.input_first,
                           stacked.interleaved};
    }
  }
  return std::nullopt;
}

namespace {

// Returns whether the next tensors are all the parts of one fused matrix.
bool are_parts(Architecture architecture, const FusedModule& fused,
               std::span<const TensorSpec> next) {
  if (fused.part != 0 || std::ssize(next) < fused.parts) return false;
  for (int64_t i = 0; i < fused.parts; ++i) {
    const auto part = fused_module(architecture, next[static_cast<size_t>(i)].name);
    if (!part || part->name != fused.name || part->part != i) return false;
  }
  return true;
}

}  // namespace

std::vector<StoredTensor> stored_tensors(Architecture architecture,
                                         std::span<const TensorSpec> canonical) {
  std::vector<StoredTensor> result;
  while (!canonical.empty()) {
    StoredTensor stored{canonical.front()};
    const auto fused = fused_module(architecture, stored.spec.name);
    stored.spec.name = stored_name(architecture, stored.spec.name);
    if (fused && are_parts(architecture, *fused, canonical)) {
      stored.spec.name = fused->name;
      stored.parts = fused->parts;
      for (const TensorSpec& part : canonical.subspan(1, static_cast<size_t>(fused->parts - 1)))
        stored.spec.shape.front() += part.shape.front();
    }
    canonical = canonical.subspan(static_cast<size_t>(stored.parts));
    result.push_back(std::move(stored));
  }
  return result;
}

}  // namespace neuronmm::io
