#include "exports/payload.h"

#include "compress/output/transformers_code.h"

namespace neuronmm::exports {
namespace {

// Returns the folder of python/export that holds the files of one target.
std::string_view target_folder(Target target) {
  return target == Target::kVllmNeuron ? "vllm_neuron/" : "nxdi/";
}

}  // namespace

std::vector<PayloadFile> payload(Target target) {
  const std::string_view folder_of_target = target_folder(target);
  std::vector<PayloadFile> files = {{"neuronmm_mlp.py", compress::mlp_code()}};
  // The plugin is installed elsewhere and needs a copy of its own.
  if (target == Target::kVllmNeuron) {
    files.push_back({"plugin/neuronmm_vllm/neuronmm_mlp.py", compress::mlp_code()});
  }
  for (const PayloadFile& file : all_payload()) {
    if (file.path.find('/') == file.path.npos) {
      files.push_back(file);
    } else if (file.path.starts_with(folder_of_target)) {
      files.push_back({file.path.substr(folder_of_target.size()), file.text});
    }
  }
  return files;
}

}  // namespace neuronmm::exports
