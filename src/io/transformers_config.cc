#include "io/transformers_config.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/families/family.h"
#include "io/families/known_keys.h"
#include "io/json_file.h"
#include "io/ordered_json.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kCausalLM = "ForCausalLM";
constexpr std::string_view kOurClass = "Neuronmm";
constexpr std::string_view kOurType = "neuronmm_";

// Returns whether the family has this name, without our prefix.
bool has_name(const Family& family, std::string_view name, std::string_view Family::*names) {
  return family.*names == name ||
         std::ranges::find(family.other_names, name) != family.other_names.end();
}

// Returns the architecture whose name of this kind is `name`, with our prefix or without it.
Result<Architecture> find_architecture(const JsonFields& fields, const std::string& key,
                                       std::string_view name, std::string_view prefix,
                                       std::string_view Family::*names) {
  const std::string_view plain = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  std::vector<std::string_view> known;
  for (size_t i = 0; i < families().size(); ++i) {
    if (has_name(*families()[i], plain, names)) return static_cast<Architecture>(i);
    known.push_back(families()[i]->*names);
  }
  const std::string_view missing = missing_for(plain);
  return fail("{}: \"{}\": {:?} is not supported{}, expected one of {}", fields.source(), key, name,
              missing.empty() ? "" : fmt::format(" (it needs {})", missing),
              fmt::join(known, ", "));
}

// Returns the class with an LM head for the class without one, as "LlamaForCausalLM" for
// "LlamaModel". transformers opens folders of both with both.
std::string with_head(const std::string& class_name) {
  constexpr std::string_view kModel = "Model";
  if (!class_name.ends_with(kModel) || class_name.starts_with(kOurClass)) return class_name;
  return class_name.substr(0, class_name.size() - kModel.size()) + std::string(kCausalLM);
}

}  // namespace

std::string_view architecture_name(Architecture architecture) {
  return family_of(architecture).class_name;
}

// Class names say exactly what computes the model. "model_type", from which transformers chooses
// the class, is for files that leave them out. A file must not name two models.
Result<Architecture> read_architecture(const JsonFields& fields) {
  NMM_ASSIGN(const auto model_type, fields.string("model_type"));
  const json* list = fields.find("architectures");
  if (list == nullptr || (list->is_array() && list->empty())) {
    if (!model_type)
      return fail("{}: \"architectures\" and \"model_type\" are missing", fields.source());
    return find_architecture(fields, "model_type", *model_type, kOurType, &Family::model_type);
  }
  if (!list->is_array() || !list->front().is_string())
    return fields.wrong("architectures", "a list of class names");
  const std::string name = with_head(list->front().get<std::string>());
  NMM_ASSIGN(const Architecture architecture,
             find_architecture(fields, "architectures", name, kOurClass, &Family::class_name));
  if (!model_type) return architecture;
  const auto of_type =
      find_architecture(fields, "model_type", *model_type, kOurType, &Family::model_type);
  if (of_type.ok() && *of_type != architecture)
    return fail(
        "{}: \"architectures\" is {}, but \"model_type\" is {:?}; expected names of one model",
        fields.source(), list->front().dump(), *model_type);
  return architecture;
}

Result<Architecture> read_architecture(std::string_view text, const std::string& source) {
  NMM_ASSIGN(const json document, parse_json_object(strict_json(text), source));
  return read_architecture(JsonFields(document, source));
}

Result<json> of_one_family(const json& document, const std::string& source) {
  NMM_ASSIGN(const Architecture architecture, read_architecture(JsonFields(document, source)));
  const Family& family = family_of(architecture);
  return family.rewrite == nullptr ? Result<json>(document) : family.rewrite(document, source);
}

// The model_type must be our own. For every type that it knows, transformers runs its own class,
// with random MLPs, whatever auto_map says.
Result<std::string> with_transformers_classes(std::string_view original_text,
                                              const std::string& source) {
  NMM_ASSIGN(const std::string text, text_of_one_family(original_text, source));
  NMM_ASSIGN(const json checked, parse_json_object(text, source));
  NMM_ASSIGN(const Architecture architecture, read_architecture(JsonFields(checked, source)));
  const Family& family = family_of(architecture);
  const std::string stem = fmt::format(
      "{}{}", kOurClass, family.class_name.substr(0, family.class_name.size() - kCausalLM.size()));
  const std::string model_class = fmt::format("{}{}", stem, kCausalLM);
  // The ordered object keeps the order of the keys.
  ordered_json document = parse_ordered_json(text);
  document["architectures"] = {model_class};
  document["model_type"] = fmt::format("{}{}", kOurType, family.model_type);
  document["auto_map"] = {
      {"AutoConfig", fmt::format("{}.{}Config", kConfigurationModule, stem)},
      {"AutoModel", fmt::format("{}.{}Model", kModelingModule, stem)},
      {"AutoModelForCausalLM", fmt::format("{}.{}", kModelingModule, model_class)}};
  return document.dump(kConfigIndent) + "\n";
}

Result<std::string> with_published_classes(std::string_view original_text,
                                           const std::string& source) {
  NMM_ASSIGN(const std::string text, text_of_one_family(original_text, source));
  NMM_ASSIGN(const json checked, parse_json_object(text, source));
  NMM_ASSIGN(const Architecture architecture, read_architecture(JsonFields(checked, source)));
  const Family& family = family_of(architecture);
  ordered_json document = parse_ordered_json(text);
  document["architectures"] = {family.class_name};
  document["model_type"] = family.model_type;
  document.erase("auto_map");
  return document.dump(kConfigIndent) + "\n";
}

std::string_view expert_width_key(Architecture architecture) {
  return architecture == Architecture::kQwen3Moe ? "moe_intermediate_size" : "intermediate_size";
}

Result<std::string> text_of_one_family(std::string_view original_text, const std::string& source) {
  NMM_ASSIGN(const json file, parse_json_object(original_text, source));
  NMM_ASSIGN(const Architecture architecture, read_architecture(JsonFields(file, source)));
  const Family& family = family_of(architecture);
  if (family.rewrite == nullptr) return std::string(original_text);
  NMM_ASSIGN(const json document, family.rewrite(file, source));
  return document.dump(kConfigIndent) + "\n";
}

}  // namespace neuronmm::io
