#include "compress/output/transformers_code.h"

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/model_config.h"
#include "io/ordered_json.h"
#include "io/text_file.h"
#include "io/transformers_config.h"

namespace neuronmm::compress {
namespace {

// Returns the text without the entry that names our Python files. It must be valid JSON.
std::string without_code(const std::string& config_text) {
  auto config = io::parse_ordered_json(config_text);
  config.erase("auto_map");
  return config.dump(io::kConfigIndent) + "\n";
}

}  // namespace

Status write_transformers_files(const std::filesystem::path& folder, std::string_view config_text,
                                const std::string& source) {
  NMM_ASSIGN(const std::string config, io::with_transformers_classes(config_text, source));
  NMM_ASSIGN(const auto parsed, io::ModelConfig::parse(config, source));
  if (parsed.experts) return io::write_text_file(folder / "config.json", without_code(config));
  const auto module_path = [&](const char* name) { return folder / (std::string(name) + ".py"); };
  NMM_TRY(io::write_text_file(module_path(io::kConfigurationModule),
                              std::string(configuration_code())));
  NMM_TRY(io::write_text_file(module_path(io::kModelingModule), std::string(modeling_code())));
  NMM_TRY(io::write_text_file(module_path(io::kMlpModule), std::string(mlp_code())));
  return io::write_text_file(folder / "config.json", config);
}

}  // namespace neuronmm::compress
