#include "io/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <span>

#include <nlohmann/json.hpp>

#include "base/notices.h"
#include "io/adapter.h"
#include "io/families/tensor_names.h"
#include "io/folder_writer.h"
#include "io/foreign_weights.h"
#include "io/json_file.h"
#include "io/mistaken_files.h"
#include "io/quantization.h"
#include "io/safetensors_writer.h"
#include "io/shards.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelPrefix = "model.";

// Maps the name of a tensor to the name of its file.
using WeightMap = std::map<std::string, std::string>;

// Returns the weights in the folder that are not what we read, for the error message.
std::vector<std::string> other_weights(const fs::path& folder) {
  constexpr std::string_view kOthers[] = {".safetensors", ".bin", ".pth", ".pt", ".gguf", ".h5"};
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (std::ranges::find(kOthers, entry->path().extension().string()) != std::end(kOthers))
      names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// Returns the error for a folder without readable weights. The message says what the folder has
// instead, which is most often another format or an incomplete download.
Error no_weights(const fs::path& folder) {
  const std::vector<std::string> found = other_weights(folder);
  const std::string described = describe_mistaken_folder(folder);
  const std::string hint = described.empty() ? "" : "; " + described;
  if (found.empty())
    return fail("{}: expected {} or {}, found no weights{}", folder.string(), kSingleFileName,
                kIndexFileName, hint);
  return fail("{}: expected weights as safetensors ({} or {}), found {}{}", folder.string(),
              kSingleFileName, kIndexFileName, fmt::join(found, ", "), hint);
}

// Returns true if the name is that of a file in the same folder. An index must not lead anywhere
// else.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Reads model.safetensors.index.json, which says which shard holds which tensor.
Result<WeightMap> read_index(const fs::path& path) {
  NMM_ASSIGN(const nlohmann::json index, read_json_object(path, kMaxIndexBytes));
  const JsonFields fields(index, path.string());
  const nlohmann::json* map = fields.find("weight_map");
  if (map == nullptr) return fields.missing("weight_map");
  if (!map->is_object()) return fields.wrong("weight_map", "an object");
  WeightMap weight_map;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>()))
      return fail("{}: weight_map {:?}: expected a file name, found {}", path.string(), tensor,
                  describe_json(file));
    weight_map.emplace(tensor, file.get<std::string>());
  }
  if (weight_map.empty()) return fail("{}: weight_map names no tensors", path.string());
  return weight_map;
}

// Returns true for scales and groups. They belong to a rounded weight and are not counted as
// parameters.
bool is_scale_or_group(const std::map<std::string, TensorView>& tensors, std::string_view name) {
  for (const std::string_view ending : {kScaleEnding, kGroupEnding}) {
    if (!name.ends_with(ending)) continue;
    const auto weight = tensors.find(std::string(name.substr(0, name.size() - ending.size())));
    if (weight != tensors.end() &&
        (weight->second.dtype == DType::kI8 || weight->second.dtype == DType::kU8)) {
      return true;
    }
  }
  return false;
}

// A link to nothing counts as present, and so does what cannot be examined, because opening it
// gives a clear error.
bool is_present(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

std::string_view without_prefix(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

}  // namespace

std::optional<int64_t> layer_of(std::string_view tensor) {
  constexpr std::string_view kLayers = "layers.";
  tensor = without_prefix(tensor, kModelPrefix);
  if (!tensor.starts_with(kLayers)) return std::nullopt;
  tensor.remove_prefix(kLayers.size());
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(tensor.data(), tensor.data() + tensor.size(), layer);
  const bool complete = error == std::errc() && end != tensor.data() + tensor.size() && *end == '.';
  return complete && layer >= 0 ? std::optional(layer) : std::nullopt;
}

bool is_of_decoder(std::string_view tensor) {
  constexpr std::string_view kParts[] = {"layers.", "embed_tokens.", "norm.", "lm_head."};
  const std::string plain = without_part_prefix(tensor);
  const std::string_view name = without_prefix(plain, kModelPrefix);
  return std::ranges::any_of(kParts, [&](auto part) { return name.starts_with(part); });
}

Result<Checkpoint> Checkpoint::open(const fs::path& folder) {
  NMM_ASSIGN(Checkpoint checkpoint, open_files(folder));
  if (!checkpoint.mounted()) {
    // Modules are fused and named as their family does when they are decoded.
    NMM_TRY(checkpoint.decode_foreign_weights());
    NMM_TRY(checkpoint.translate_names());
  }
  NMM_TRY(checkpoint.merge_adapter());
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_files(const fs::path& folder) {
  NMM_TRY(require_folder(folder));
  NMM_TRY(refuse_adapter(folder));
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  NMM_ASSIGN(checkpoint.mounted_, mounted_model(folder));
  if (checkpoint.mounted_ != nullptr) {
    NMM_TRY(checkpoint.mounted_->weights());
    checkpoint.tensors_ = checkpoint.mounted_->tensors();
    return checkpoint;
  }
  // As in transformers, this file takes precedence.
  if (is_present(folder / kSingleFileName)) {
    NMM_TRY(checkpoint.add_file(kSingleFileName));
    return checkpoint;
  }
  if (!is_present(folder / kIndexFileName)) return no_weights(folder);
  NMM_ASSIGN(const WeightMap weight_map, read_index(folder / kIndexFileName));
  // Shards are opened in the order of their names, whatever the order in the index.
  std::map<std::string, bool> needed;
  for (const auto& [tensor, file] : weight_map) needed[file] |= is_of_decoder(tensor);
  for (const auto& [name, is_needed] : needed) {
    const bool present = is_present(folder / name);
    if (!present && is_needed)
      return fail("{}: this shard is missing, {} names it (an incomplete download?)",
                  (folder / name).string(), kIndexFileName);
    if (present) NMM_TRY(checkpoint.add_file(name));
  }
  // The shards decide which tensors exist. A tensor that only the index has may be one that nobody
  // needs, such as the LM head of a tied model.
  for (const auto& [tensor, file] : weight_map) {
    if (!checkpoint.has(tensor)) checkpoint.absent_.emplace(without_part_prefix(tensor), file);
  }
  return checkpoint;
}

// All float tensors lie in the same pages of zeros. The system would give them memory only when
// they are written, and nothing writes them.
Result<Checkpoint> Checkpoint::zeros(const fs::path& folder, const std::vector<TensorSpec>& specs) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  int64_t largest = 1, longest = 0;
  for (const TensorSpec& spec : specs) {
    const TensorView view{.dtype = spec.dtype, .shape = spec.shape};
    largest = std::max(largest, view.size_bytes());
    if (spec.dtype == DType::kI32) longest = std::max(longest, view.size());
  }
  NMM_ASSIGN(checkpoint.zeros_, MappedFile::zeros(largest));
  std::vector<int32_t> numbers(static_cast<size_t>(longest));
  std::iota(numbers.begin(), numbers.end(), 0);
  checkpoint.numbers_ = std::make_shared<const std::vector<int32_t>>(std::move(numbers));
  for (const TensorSpec& spec : specs) {
    const std::byte* const data = spec.dtype == DType::kI32
                                      ? std::as_bytes(std::span(*checkpoint.numbers_)).data()
                                      : checkpoint.zeros_->bytes().data();
    checkpoint.tensors_.emplace(spec.name, TensorView{spec.dtype, spec.shape, data});
  }
  return checkpoint;
}

Status Checkpoint::add_file(const std::string& name) {
  NMM_ASSIGN(SafetensorsFile file, SafetensorsFile::open(folder_ / name));
  for (const auto& [tensor, view] : file.tensors()) {
    if (!tensors_.emplace(tensor, view).second)
      return fail("{}: tensor {:?} occurs in {} and in another shard", folder_.string(), tensor,
                  name);
  }
  files_.emplace(name, std::move(file));
  return {};
}

Status Checkpoint::decode_foreign_weights() {
  NMM_ASSIGN(const auto quantization,
             read_foreign_quantization(folder_, has_foreign_tensors(tensors_)));
  if (!quantization) return {};
  if (quantization->method == ForeignMethod::kMxfp4) return {};  // see translate_names()
  NMM_ASSIGN(ForeignWeights weights, decode_foreign(*quantization, folder_, tensors_));
  if (weights.matrices.empty()) return {};
  notify(fmt::format("{}: {}", folder_.string(), weights.text));
  foreign_ = std::make_shared<const ForeignWeights>(std::move(weights));
  return {};
}

const std::string& Checkpoint::foreign_text() const {
  static const std::string none;
  return foreign_ == nullptr ? none : foreign_->text;
}

Status Checkpoint::translate_names() {
  NamedTensors named{std::move(tensors_), {}};
  NMM_TRY(use_canonical_names(folder_, named));
  tensors_ = std::move(named.tensors);
  owned_ = std::move(named.owned);
  owned_codes_ = std::move(named.owned_codes);
  owned_formats_ = std::move(named.owned_formats);
  if (!named.has_mxfp4) return {};
  int64_t bytes = 0;
  for (const auto& codes : owned_codes_) bytes += codes->stored_bytes();
  ForeignWeights weights;
  weights.text = fmt::format("MXFP4 in the experts, {:.1f} MB", static_cast<double>(bytes) / 1e6);
  notify(fmt::format("{}: {}", folder_.string(), weights.text));
  foreign_ = std::make_shared<const ForeignWeights>(std::move(weights));
  return {};
}

Status Checkpoint::merge_adapter() {
  const auto adapter = adapter_of(folder_);
  if (!adapter) return {};
  const std::string architecture = mounted() ? mounted_->architecture() : std::string();
  NMM_ASSIGN(adapter_, io::merge_adapter(*adapter, folder_, architecture, tensors_));
  notify(adapter_->text);
  return {};
}

bool Checkpoint::adapted(const std::string& name) const {
  return adapter_ != nullptr && adapter_->changed.contains(name);
}

bool Checkpoint::untied() const { return adapter_ != nullptr && adapter_->unties; }

Result<TensorView> Checkpoint::require(const std::string& name, const Shape& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    const auto promised = absent_.find(name);
    const std::string file =
        promised == absent_.end()
            ? ""
            : fmt::format("; {} puts it into {}", kIndexFileName, promised->second);
    return fail("{}: tensor {:?} is missing, expected with shape {}{}", folder_.string(), name,
                shape_string(shape), file);
  }
  const TensorView& tensor = found->second;
  if (tensor.shape != shape)
    return fail("{}: tensor {:?}: expected shape {}, found {}", folder_.string(), name,
                shape_string(shape), shape_string(tensor.shape));
  if (!is_float(tensor.dtype))
    return fail("{}: tensor {:?}: expected a float dtype (BF16, F16, F32, F64), found {}",
                folder_.string(), name, dtype_name(tensor.dtype));
  return tensor;
}

int64_t Checkpoint::parameters(const std::string& name) const {
  const TensorView& tensor = tensors_.at(name);
  if (tensor.dtype == DType::kI32 || is_scale_or_group(tensors_, name)) return 0;
  if (tensor.dtype != DType::kU8 || !has(name + kScaleEnding)) return tensor.size();
  return has(name + kGroupEnding) ? tensor.size() * 2 : tensor.size() * 4 / 3;
}

int64_t Checkpoint::parameters() const {
  int64_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += parameters(name);
  return total;
}

int64_t Checkpoint::size_bytes() const {
  int64_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += tensor.size_bytes();
  return total;
}

void Checkpoint::tie(const std::string& table, const std::string& other, bool values_of_other) {
  const auto found = tensors_.find(other);
  if (values_of_other) tensors_.at(table) = found->second;
  tensors_.erase(found);
  tied_ = true;
}

void Checkpoint::notify_conversion() const {
  const std::string conversion = mounted_ != nullptr ? mounted_->conversion() : std::string();
  if (!conversion.empty()) notify(fmt::format("{}: {}", folder_.string(), conversion));
}

void Checkpoint::release_pages() const {
  for (const auto& [name, file] : files_) file.release_pages();
  if (mounted_ != nullptr) mounted_->release_pages();
}

}  // namespace neuronmm::io
