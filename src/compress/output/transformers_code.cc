#include "compress/output/transformers_code.h"

#include "io/text_file.h"
#include "io/transformers_config.h"

namespace neuronmm::compress {

Status write_transformers_files(const std::filesystem::path& folder, std::string_view config_text,
                                const std::string& source) {
  NMM_ASSIGN(const std::string config, io::with_transformers_classes(config_text, source));
  const auto module_path = [&](const char* name) { return folder / (std::string(name) + ".py"); };
  NMM_TRY(io::write_text_file(module_path(io::kConfigurationModule),
                              std::string(configuration_code())));
  NMM_TRY(io::write_text_file(module_path(io::kModelingModule), std::string(modeling_code())));
  NMM_TRY(io::write_text_file(module_path(io::kMlpModule), std::string(mlp_code())));
  return io::write_text_file(folder / "config.json", config);
}

}  // namespace neuronmm::compress
