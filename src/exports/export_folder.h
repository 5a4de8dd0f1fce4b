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

namespace neuronmm::exports {

// Before any work: refuses an `out` that exists. An export is no model folder, which could be
// replaced: what somebody has measured there stays.
Status check_output(const std::filesystem::path& out);

// The whole folder, then one rename; of an error nothing is left. Errors: `out` exists, or lies in
// or around `model`.
Status write_export(const std::filesystem::path& model, const std::filesystem::path& out,
                    const Manifest& manifest, const eval::ReferenceLogits& golden);

}  // namespace neuronmm::exports
