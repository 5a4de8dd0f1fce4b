#include "gguf/model_plan.h"

namespace neuronmm::gguf {

Result<ModelPlan> plan_model(const io::GgufShards& model, const Vocabulary* vocabulary, DType dtype,
                             const TablesOfFile& tables) {
  NMM_ASSIGN(const GgufArchitecture architecture, find_architecture(model.metadata()));
  ModelPlan plan = {.architecture = architecture, .config_text = {}, .config = {}, .weights = {}};
  NMM_ASSIGN(plan.config_text, config_json(model, architecture, vocabulary, dtype, tables.tied));
  const std::string source = fmt::format("{}: config.json for it", model.metadata().source());
  NMM_ASSIGN(plan.config, io::ModelConfig::parse(plan.config_text, source));
  if (vocabulary != nullptr && std::ssize(vocabulary->tokens) > plan.config.vocab_size)
    return fail(
        "{}: \"tokenizer.ggml.tokens\": expected at most the {} rows of token_embd.weight, "
        "found {}",
        model.metadata().source(), plan.config.vocab_size, vocabulary->tokens.size());
  NMM_ASSIGN(plan.weights, map_weights(model, plan.config, architecture, tables));
  return plan;
}

}  // namespace neuronmm::gguf
