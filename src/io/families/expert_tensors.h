#pragma once
// Families of mixtures of experts have this in common in their files.

#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "io/families/family.h"

namespace neuronmm::io {

// Returns the names under which transformers 5 holds the experts of a layer in memory. Some
// programs write them into files.
inline std::vector<StackedExperts> stacked_experts() {
  return {{.own = "mlp.experts.gate_up_proj", .parts = {"gate_proj.weight", "up_proj.weight"}},
          {.own = "mlp.experts.down_proj", .parts = {"down_proj.weight", ""}}};
}

// Adds the numbers of experts and of active experts of a GGUF file to config.json.
inline Status complete_experts(const GgufFacts& facts, nlohmann::ordered_json& config,
                               const char* count_key) {
  NMM_ASSIGN(const auto count, facts.integer("expert_count"));
  NMM_ASSIGN(const auto active, facts.integer("expert_used_count"));
  if (!count || *count < 1) return facts.wrong("expert_count", "an integer from 1");
  if (!active || *active < 1) return facts.wrong("expert_used_count", "an integer from 1");
  config[count_key] = *count;
  config["num_experts_per_tok"] = *active;
  return {};
}

}  // namespace neuronmm::io
