#pragma once
// Writes the README.md of a model folder: what was done to which model, what it costs, and how to
// load it. The README of the original model is not copied, because its facts need not hold for the
// new model. `compress`, `quantize` and `finetune` call this. The text may hold names from other
// files, which are escaped.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// The compressed model compared with the dense one on some tokens. If `held_out` is true, neither
// model was fitted to these tokens; otherwise calibration has seen them.
struct MeasuredLoss {
  int64_t tokens = 0;
  double divergence = 0.0;  // mean KL(dense || compressed), nats per token
  double dense_perplexity = 0.0, perplexity = 0.0;
  bool held_out = true;
};

// The contents of a model card.
struct ModelCard {
  std::string title;       // "out: demo, compressed"
  std::string folder;      // the folder's name, for the commands that load it
  std::string base_model;  // "organization/name" on the hub; empty if unknown
  // The relation to base_model in the hub's words, "quantized" or "finetune".
  std::string_view relation = "quantized";
  std::string license;            // license_lines() of the original model's README
  std::vector<std::string> tags;  // in addition to "neuronmm"
  std::vector<std::pair<std::string, std::string>> facts;  // rows of the table
  bool plain = false;    // other programs can load the model without our code
  bool has_code = true;  // the folder has the code with which transformers loads the model
};

// Returns a card for `out`, made from the folder `model`, with title, names and license. The title
// is "OUT: MODEL" followed by `what`.
ModelCard model_card(const std::filesystem::path& out, const std::filesystem::path& model,
                     std::string_view what);

// Returns the facts of a compression record. Of a mixture of experts they do not include the sizes.
// `weights` says in words how the weights are stored.
std::vector<std::pair<std::string, std::string>> compression_facts(
    const io::CompressionRecord& record, const io::ModelConfig& config, std::string_view weights);
// Returns "KL 0.0213 nats per token, perplexity ...", or "not measured".
std::string loss_text(const std::optional<MeasuredLoss>& loss);

// Returns the card as Markdown with YAML front matter.
std::string model_card_text(const ModelCard& card);

// Returns the last part of a folder's path.
std::string folder_name(const std::filesystem::path& folder);

// Returns what a model of this form (io::CompressionRecord::form) has: "low-rank MLP weights",
// "narrow MLPs".
std::string_view form_text(std::string_view form);
// Returns the tag of such a model on the hub.
std::string_view form_tag(std::string_view form);

}  // namespace neuronmm::compress
