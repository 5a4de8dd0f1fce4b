#pragma once
// README.md of a folder that this program wrote: what was done to which model, what it costs, how
// to load it. The dense model's own page would tell things that are no longer true.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// The compressed model beside the dense one on tokens that neither has been fitted to, unless
// `held_out` is false: then calibration has seen them.
struct MeasuredLoss {
  int64_t tokens = 0;
  double divergence = 0.0;  // mean KL(dense || compressed), nats per token
  double dense_perplexity = 0.0, perplexity = 0.0;
  bool held_out = true;
};

struct ModelCard {
  std::string title;                        // "out: demo, compressed"
  std::string folder;                       // its name, for the commands that load it
  std::string base_model;                   // "organization/name" on the hub; empty: unknown
  std::string_view relation = "quantized";  // to base_model, in the hub's words; or "finetune"
  std::string license;                      // license_lines() of the base model's page
  std::vector<std::string> tags;            // beyond "neuronmm"
  std::vector<std::pair<std::string, std::string>> facts;  // rows of its table
  bool plain = false;  // a model that other programs know, without code of ours
};

// The card of `out`, made of `model`: title, names and licence. "OUT: MODEL" and `what` are the
// title.
ModelCard model_card(const std::filesystem::path& out, const std::filesystem::path& model,
                     std::string_view what);

// What a compression record says, as facts.
std::vector<std::pair<std::string, std::string>> compression_facts(
    const io::CompressionRecord& record, const io::ModelConfig& config, std::string_view weights);
// "KL 0.0213 nats per token, perplexity ...", or "not measured".
std::string loss_text(const std::optional<MeasuredLoss>& loss);

// Markdown with YAML front matter.
std::string model_card_text(const ModelCard& card);

// The last part of a folder's path.
std::string folder_name(const std::filesystem::path& folder);

// "gate 192, up 192, down 192", or the smallest and the largest where layers differ; "dense" for 0.
std::string ranks_text(const std::vector<io::MlpShape>& ranks);

// What a model of this form (io::CompressionRecord) has: "low-rank MLP weights", "narrow MLPs".
std::string_view form_text(std::string_view form);
// Its tag on the hub.
std::string_view form_tag(std::string_view form);

}  // namespace neuronmm::compress
