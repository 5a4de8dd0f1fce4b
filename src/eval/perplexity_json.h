#pragma once
// Perplexities and divergences as JSON, for the reports of `perplexity`, `eval` and `compare`.
// Values that are not a number (the error of a single chunk) become null.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "eval/divergence.h"
#include "eval/perplexity.h"

namespace neuronmm::eval {

// Adds NAME, NAME_stderr and NAME_interval, which is the 95 % interval [low, high].
void add_estimate(nlohmann::ordered_json& json, const std::string& name, const Estimate& estimate);

// Returns the estimates "kl", "top1_agreement" and "nll_difference" (nats per token, positive if
// the other model is worse), "perplexity_ratio" with its interval, and "reference_perplexity".
nlohmann::ordered_json divergence_json(const DivergenceSummary& summary);

// Returns the fields of the report under their names, and its standard error as
// "perplexity_stderr".
nlohmann::ordered_json perplexity_json(const PerplexityReport& report);

}  // namespace neuronmm::eval
