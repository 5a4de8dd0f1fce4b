#pragma once
// Perplexities and divergences as JSON. What is not a number (the error of a single chunk) is null.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "eval/divergence.h"
#include "eval/perplexity.h"

namespace neuronmm::eval {

// NAME, NAME_stderr and NAME_interval [low, high], the 95 % one.
void add_estimate(nlohmann::ordered_json& json, const std::string& name, const Estimate& estimate);

// "kl", "top1_agreement" and "nll_difference" (nats per token, positive where the other model is
// worse) so, "perplexity_ratio" with its interval, "reference_perplexity".
nlohmann::ordered_json divergence_json(const DivergenceSummary& summary);

nlohmann::ordered_json perplexity_json(const PerplexityReport& report);

}  // namespace neuronmm::eval
