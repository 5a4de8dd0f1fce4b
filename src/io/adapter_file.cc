#include "io/adapter_file.h"

#include <array>
#include <string_view>
#include <utility>

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

// The parts that a module's tensors may be, with the text between the module and its ending.
struct AdapterPart {
  std::string_view marker;
  TensorView AdapterModule::*member;
  std::string_view ending;
  bool of_table = false;
};
constexpr std::array kAdapterParts = {
    AdapterPart{".lora_A", &AdapterModule::a, ".weight"},
    AdapterPart{".lora_B", &AdapterModule::b, ".weight"},
    AdapterPart{".lora_B", &AdapterModule::bias, ".bias"},
    AdapterPart{".lora_magnitude_vector", &AdapterModule::magnitudes, ""},
    AdapterPart{".lora_magnitude_vector", &AdapterModule::magnitudes, ".weight"},
    AdapterPart{".lora_embedding_A", &AdapterModule::a, "", true},
    AdapterPart{".lora_embedding_B", &AdapterModule::b, "", true}};

// Returns the name of the module if `name` is one of its tensors, or an empty name.
std::string_view module_of_part(std::string_view name, const AdapterPart& part) {
  if (!name.ends_with(part.ending)) return {};
  name.remove_suffix(part.ending.size());
  constexpr std::string_view kDefault = ".default";
  if (name.ends_with(kDefault)) name.remove_suffix(kDefault.size());
  if (!name.ends_with(part.marker)) return {};
  return name.substr(0, name.size() - part.marker.size());
}

std::string without_part(std::string name, std::string_view part) {
  if (const size_t at = name.find(part); at != std::string::npos) name.erase(at, part.size());
  return name;
}

// Sorts the tensors of one file.
class AdapterReader {
 public:
  AdapterReader(std::string source, AdapterFile& adapter)
      : source_(std::move(source)), adapter_(adapter) {}

  Status run() {
    for (const auto& [name, tensor] : adapter_.file.tensors()) NMM_TRY(add(name, tensor));
    for (const auto& [name, module] : adapter_.modules) NMM_TRY(check(name, module));
    if (adapter_.modules.empty() && adapter_.replacements.empty())
      return fail("{}: holds no tensors", source_);
    return {};
  }

 private:
  Status add(const std::string& stored, const TensorView& tensor) {
    constexpr std::string_view kPrefix = "base_model.model.";
    if (!is_float(tensor.dtype))
      return fail("{}: tensor {:?}: expected a float dtype (BF16, F16, F32, F64), found {}",
                  source_, stored, dtype_name(tensor.dtype));
    std::string_view name = stored;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    for (const AdapterPart& part : kAdapterParts) {
      const std::string_view module = module_of_part(name, part);
      if (!module.empty()) return add_part(std::string(module), part, tensor, stored);
    }
    const bool plain = name.ends_with(".weight") || name.ends_with(".bias");
    if (!plain || name.find(".lora_") != name.npos || name.find("token_adapter") != name.npos)
      return fail("{}: tensor {:?} is none that a LoRA adapter of PEFT has (lora_A, lora_B, ...)",
                  source_, stored);
    std::string replaced(name);
    for (const std::string_view part :
         {".base_layer", ".modules_to_save.default", ".modules_to_save"})
      replaced = without_part(std::move(replaced), part);
    if (adapter_.replacements.emplace(replaced, tensor).second) return {};
    return fail("{}: tensors {:?} and another one are both {:?}", source_, stored, replaced);
  }

  Status add_part(const std::string& name, const AdapterPart& part, const TensorView& tensor,
                  const std::string& stored) {
    AdapterModule& module = adapter_.modules[name];
    TensorView& member = module.*part.member;
    if (!member.empty())
      return fail("{}: tensors {:?} and another one are both {}{}", source_, stored, name,
                  part.marker);
    const bool matrix = part.member == &AdapterModule::a || part.member == &AdapterModule::b;
    const size_t sides = matrix ? 2 : 1;
    if (tensor.shape.size() != sides || tensor.size() == 0)
      return fail("{}: tensor {:?}: expected a {}, found shape {}", source_, stored,
                  matrix ? "matrix" : "vector", shape_string(tensor.shape));
    member = tensor;
    if (matrix) module.of_table = part.of_table;
    return {};
  }

  Status check(const std::string& name, const AdapterModule& module) const {
    const char* const a = module.of_table ? "lora_embedding_A" : "lora_A";
    const char* const b = module.of_table ? "lora_embedding_B" : "lora_B";
    if (module.a.empty() || module.b.empty())
      return fail(
          "{}: module {:?} has no {}, which belongs to its other tensors (an incomplete "
          "file?)",
          source_, name, module.a.empty() ? a : b);
    if (module.b.columns() != module.rank())
      return fail("{}: module {:?}: expected {} and {} of one rank, found shapes {} and {}",
                  source_, name, a, b, shape_string(module.a.shape), shape_string(module.b.shape));
    if (module.of_table && !module.magnitudes.empty())
      return fail(
          "{}: module {:?}: DoRA of an embedding table cannot be merged here; merge the "
          "adapter in Python",
          source_, name);
    for (const TensorView& vector : {module.magnitudes, module.bias}) {
      if (!vector.empty() && vector.size() != module.b.rows())
        return fail("{}: module {:?}: expected vectors of {} numbers, as {} has rows, found {}",
                    source_, name, module.b.rows(), b, vector.size());
    }
    return {};
  }

  std::string source_;
  AdapterFile& adapter_;
};

}  // namespace

Result<AdapterFile> AdapterFile::open(const fs::path& folder) {
  const fs::path path = folder / kAdapterFileName;
  std::error_code error;
  const auto has = [&](const fs::path& found) {
    return fs::symlink_status(found, error).type() != fs::file_type::not_found;
  };
  if (!has(path) && has(folder / "adapter_model.bin"))
    return fail(
        "{}: adapter_model.bin holds Python pickles, which can run code; convert it in Python: "
        "PeftModel.from_pretrained(BASE, DIR).save_pretrained(NEW)",
        folder.string());
  AdapterFile adapter;
  NMM_ASSIGN(adapter.file, SafetensorsFile::open(path));
  NMM_TRY(AdapterReader(path.string(), adapter).run());
  return adapter;
}

}  // namespace neuronmm::io
