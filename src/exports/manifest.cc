#include "exports/manifest.h"

namespace neuronmm::exports {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Prediction& prediction) {
  return {{"context_encoding_model", prediction.prefill_ms},
          {"token_generation_model", prediction.decode_ms},
          {"e2e_model", prediction.request_ms}};
}

std::string stem(const io::ModelConfig& config) {
  const std::string name(io::architecture_name(config.architecture));
  return name.substr(0, name.find("ForCausalLM"));
}

}  // namespace

std::string model_type(const io::ModelConfig& config) {
  std::string name = stem(config);
  for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
  return "neuronmm_" + name;
}

std::string architecture(const io::ModelConfig& config) {
  return fmt::format("Neuronmm{}ForCausalLM", stem(config));
}

int64_t sequence_length(const Manifest& m) {
  const int64_t tokens = m.prompt_tokens + m.new_tokens;
  if (m.target == Target::kNxdi) return tokens;
  constexpr int64_t kTiles = int64_t{2} * 128;
  return (tokens + kTiles - 1) / kTiles * kTiles;
}

std::string export_json(const Manifest& m, const Json& files) {
  Json packages = Json::object();
  for (const Package& package : m.choice.release.packages) packages[package.name] = package.version;
  Json json = {{"format", 1},
               {"neuronmm", m.version},
               {"target", target_name(m.target)},
               {"device", m.choice.device},
               {"sdk", m.choice.release.sdk},
               {"packages", packages},
               {"model",
                {{"name", m.source},
                 {"model_type", model_type(m.config)},
                 {"architecture", architecture(m.config)},
                 {"form", m.config.compression->form},
                 {"ratio", m.config.compression->ratio}}},
               {"prompt_tokens", m.prompt_tokens},
               {"new_tokens", m.new_tokens},
               {"sequence_length", sequence_length(m)},
               {"predicted",
                {{"how", "simulated by neuronmm, milliseconds, one NeuronCore, batch 1"},
                 {"dense", to_json(m.dense)},
                 {"factored", to_json(m.factored)}}},
               {"notes", m.use.notes}};
  if (!files.is_null()) json["files"] = files;
  return json.dump(2) + "\n";
}

std::string kernels_json(const std::vector<ExportedKernel>& kernels) {
  Json json = Json::array();
  for (const ExportedKernel& kernel : kernels) {
    json.push_back({{"file", kernel.file},
                    {"function", kernel.function},
                    {"use", kernel.use},
                    {"shape", {{"M", kernel.M}, {"K", kernel.K}, {"r", kernel.r}, {"N", kernel.N}}},
                    {"cores", kernel.cores},
                    {"tolerance", kernel.tolerance}});
  }
  return json.dump(2) + "\n";
}

}  // namespace neuronmm::exports
