#pragma once
// The folder that an owner of a Trainium takes there (docs/export.md):
//
//   model/               the weights, linked or copied, under their names, and the tokenizer; its
//                        config.json names an architecture of our own
//   neuronmm_mlp.py      the smaller MLPs in plain torch
//   plugin/              vllm-neuron: a package that vLLM finds   | nxdi_model.py: nxdi's
//   kernels/             vllm-neuron: fused kernels, for layers of equal ranks
//   golden.safetensors   prompts and the logits of our CPU backend (eval/reference_file.h)
//   run.py, check_on_trainium.py, common.py, engine.py, export.json, README.md

#include <filesystem>

#include "base/result.h"
#include "eval/reference_logits.h"
#include "exports/manifest.h"
#include "io/folder_writer.h"

namespace neuronmm::exports {

class ExportFolder {
 public:
  // Before any work: refuses an `out` that exists, or that lies in or around the model.
  static Result<ExportFolder> create(const std::filesystem::path& out,
                                     const std::filesystem::path& model);
  // All of it, then one rename.
  Status write(const Manifest& manifest, const eval::ReferenceLogits& golden);

 private:
  ExportFolder(io::FolderWriter writer, std::filesystem::path model)
      : writer_(std::move(writer)), model_(std::move(model)) {}
  Status write_model(const std::filesystem::path& folder) const;

  io::FolderWriter writer_;
  std::filesystem::path model_;
};

}  // namespace neuronmm::exports
