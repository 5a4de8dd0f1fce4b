#pragma once
// Opens a model folder: its config.json together with its weights. Every command that reads weights
// opens its model with it, so that all of them see the same model.
//
// A folder whose config.json has tie_word_embeddings false may nevertheless hold one table twice,
// as the embedding table and as the LM head (twin_tables.h). Such a model is tied here: config says
// so, the checkpoint has the finer table under the name of the embedding table and no LM head, and
// a notice (base/notices.h) says what was found. The tables are compared once per process. Folders
// with rounded weights are left as they are.

#include <filesystem>
#include <string>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::io {

struct ModelFolder {
  ModelConfig config;
  Checkpoint checkpoint;
};

// Fails if config.json and the weights contradict each other: other numbers of layers or of rows of
// the vocabulary's tables, or weights of another program. The error names both numbers. Readers of
// single tensors compare all other shapes.
Status check_agreement(const ModelConfig& config, const Checkpoint& checkpoint);

// Opens the folder. Fails like ModelConfig::load, Checkpoint::open and check_agreement.
Result<ModelFolder> open_model(const std::filesystem::path& folder);
// Opens a folder whose model will only run. Tables of a GGUF file are not compared: comparing them
// takes as long as loading the model, and the second table needs no memory, because its rows are
// read where they lie.
Result<ModelFolder> open_model_to_run(const std::filesystem::path& folder);

// Ties a model whose config and checkpoint are opened already, as open_model() does.
void tie_twins(ModelConfig& config, Checkpoint& checkpoint);

// Returns the text of the folder's config.json. If open_model() has tied the model, the text says
// so. The entry about weights that another program has rounded is left out. What writes another
// folder of the same model begins with this text.
Result<std::string> config_text(const Checkpoint& checkpoint);

}  // namespace neuronmm::io
