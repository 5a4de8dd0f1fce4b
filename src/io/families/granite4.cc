// Granite 4 without Mamba layers and experts: Granite 3 with other tensor names.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// Returns "rope" or "nope". The class turns nothing unless the file says "rope".
Result<std::string> positions_of(const JsonFields& fields) {
  NMM_ASSIGN(const auto type, fields.string("position_embedding_type"));
  if (!type || *type == "nope") return std::string("nope");
  if (*type != "rope") return fields.wrong("position_embedding_type", "\"rope\" or \"nope\"");
  return *type;
}

Result<json> rewrite_granite4(const json& document, const std::string& source) {
  const JsonFields fields(document, source);
  const json* types = fields.find("layer_types");
  if (types == nullptr) types = fields.find("layers_block_type");
  if (types == nullptr || !types->is_array())
    return fields.wrong("layer_types",
                        "a list of \"attention\" (without it all layers are Mamba's)");
  for (const json& type : *types) {
    if (type != "attention" && type != "full_attention")
      return fields.wrong("layer_types",
                          "only \"attention\" (layers with a recurrent state are not supported)");
  }
  NMM_ASSIGN(const auto experts, fields.integer("num_local_experts"));
  if (experts != 0)
    return fields.wrong("num_local_experts", "0 (layers of experts are not supported)");
  NMM_ASSIGN(const std::string positions, positions_of(fields));
  json granite = document;
  for (const auto& [key, value] : document.items()) {
    if (key.starts_with("mamba_")) granite.erase(key);
  }
  for (const char* key : {"layer_types", "layers_block_type", "num_local_experts",
                          "num_experts_per_tok", "shared_intermediate_size", "time_step_limit",
                          "time_step_min", "time_step_max", "normalization_function"})
    granite.erase(key);
  granite["intermediate_size"] = document.value("shared_intermediate_size", json(1024));
  granite["position_embedding_type"] = positions;
  set_family(granite, "GraniteForCausalLM", "granite");
  return granite;
}

}  // namespace

namespace family {

const Family& granite4() {
  static const Family family = {
      .class_name = "GraniteMoeHybridForCausalLM",
      .model_type = "granitemoehybrid",
      .rewrite = rewrite_granite4,
      .names = {.renamed = {{"shared_mlp.output_linear", "mlp.down_proj"}},
                .sliced = {{"shared_mlp.input_linear", {"mlp.gate_proj", "mlp.up_proj", ""}}}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
