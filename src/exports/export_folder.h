#pragma once
// Writes the folder that an owner of a Trainium copies to that machine (docs/guide/export.md). The
// `export` command calls it.
//
//   model/               the weights, linked or copied, under their names, and the tokenizer; its
//                        config.json names an architecture of our own
//   neuronmm_mlp.py      the smaller MLPs in plain torch
//   plugin/              only for vllm-neuron: a Python package that vLLM finds
//   nxdi_model.py        only for nxdi: the model
//   kernels/             only for vllm-neuron: fused kernels, for layers of equal ranks
//   golden.safetensors   prompts and the logits of our CPU backend (eval/reference_file.h)
//   run.py, check_on_trainium.py, common.py, engine.py, export.json, README.md

#include <filesystem>

#include "base/result.h"
#include "eval/reference_logits.h"
#include "exports/manifest.h"
#include "io/folder_writer.h"

namespace neuronmm::exports {

// Returns an error if `out` exists. Call it before any other work. An existing export is never
// replaced, unlike a model folder, because it may hold measurements that somebody has made. What a
// killed run left beside a complete export is removed.
Status check_output(const std::filesystem::path& out);

// Writes the whole folder and then renames it once, so that an error leaves nothing behind. Errors:
// `out` exists, or lies inside or around `model`.
Status write_export(const std::filesystem::path& model, const std::filesystem::path& out,
                    const Manifest& manifest, const eval::ReferenceLogits& golden,
                    const io::BeforeOutput<>& before_output = {});

}  // namespace neuronmm::exports
