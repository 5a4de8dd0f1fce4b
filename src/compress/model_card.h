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
  std::string title;       // "out: demo, compressed"
  std::string base_model;  // "organization/name" of the Hugging Face hub; empty: unknown
  std::string folder;      // its name, for the commands that load it
  std::vector<std::pair<std::string, std::string>> facts;  // rows of its table
};
// What a compression record says, as facts.
std::vector<std::pair<std::string, std::string>> compression_facts(
    const io::CompressionRecord& record, const io::ModelConfig& config, std::string_view weights);
// "KL 0.0213 nats per token, perplexity ...", or "not measured".
std::string loss_text(const std::optional<MeasuredLoss>& loss);

// Markdown with YAML front matter.
std::string model_card_text(const ModelCard& card);

// "_name_or_path" of a config.json if that is a name of the hub, else nothing.
std::string hub_name(const std::string& config_json_text);

// The last part of a folder's path.
std::string folder_name(const std::filesystem::path& folder);

// "gate 192, up 192, down 192", or the smallest and the largest where layers differ; "dense" for 0.
std::string ranks_text(const std::vector<io::MlpRanks>& ranks);

}  // namespace neuronmm::compress
