#include "compress/output/model_card.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "compress/output/transformers_code.h"
#include "compress/sizes/form.h"
#include "io/front_matter.h"
#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::compress {
namespace {

// Returns whether `word` can be one of the two parts of a name on the hub. Such words are safe in
// YAML and Markdown.
bool is_hub_word(std::string_view word) {
  return !word.empty() && word.front() != '.' &&
         word.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
             "-_.") == std::string_view::npos;
}

// Returns `text` made safe for a cell of a Markdown table. Names of files and folders may hold any
// character.
std::string in_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|' || c == '`' || c == '<' || c == '\\') cell += '\\';
    cell += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return cell;
}

// Returns the share of the parameters of all MLP matrices that is kept. Dense matrices count as
// kept.
double mlp_share(const io::CompressionRecord& record, const io::ModelConfig& config) {
  const MlpSizes sizes = {config.hidden_size, config.intermediate_size, !record.pivoted()};
  double kept = 0.0;
  for (const io::MlpShape& layer : record.ranks) {
    kept += static_cast<double>(sizes.parameters(layer));
  }
  return kept / static_cast<double>(sizes.dense_parameters() * std::ssize(record.ranks));
}

// Returns "_name_or_path" of a config.json if it is a name on the hub, otherwise nothing.
std::string hub_name(const std::string& config_json_text) {
  const auto json = nlohmann::json::parse(config_json_text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("_name_or_path")) return {};
  const nlohmann::json& value = json.at("_name_or_path");
  if (!value.is_string()) return {};
  const std::string name = value.get<std::string>();
  const size_t slash = name.find('/');
  if (slash == std::string::npos || name.size() > 200) return {};
  const std::string_view whole = name;
  return is_hub_word(whole.substr(0, slash)) && is_hub_word(whole.substr(slash + 1)) ? name : "";
}

// Returns a size such as "192", or the smallest and the largest as "128 to 192". Size 0 is written
// as `zero`.
std::string range_text(const std::vector<io::MlpShape>& shapes, int64_t io::MlpShape::*size,
                       const std::string& zero = "dense") {
  const auto [least, most] = std::ranges::minmax(shapes, {}, size);
  const std::string text = least.*size == 0 ? zero : std::to_string(least.*size);
  return least.*size == most.*size ? text : fmt::format("{} to {}", text, most.*size);
}

// Returns the sizes of a model in words: "gate 192, up 192, down 192" for form uv, and for other
// forms "352 to 448 neurons, pivots of input 192".
std::string sizes_text(const io::CompressionRecord& record, const io::ModelConfig& config) {
  std::vector<io::MlpShape> shapes = record.ranks;
  if (!record.pivoted()) {
    return fmt::format("gate {}, up {}, down {}", range_text(shapes, &io::MlpShape::gate),
                       range_text(shapes, &io::MlpShape::up),
                       range_text(shapes, &io::MlpShape::down));
  }
  for (io::MlpShape& shape : shapes) {
    if (shape.neurons == 0) shape.neurons = config.intermediate_size;
  }
  std::string text = range_text(shapes, &io::MlpShape::neurons) + " neurons";
  for (const auto& [name, size] :
       {std::pair("input", &io::MlpShape::input), std::pair("gate", &io::MlpShape::gate),
        std::pair("up", &io::MlpShape::up), std::pair("down", &io::MlpShape::down)}) {
    const auto has = [&, of = size](const io::MlpShape& shape) { return shape.*of > 0; };
    if (!std::ranges::any_of(shapes, has)) continue;
    text += fmt::format(", pivots of {} {}", name, range_text(shapes, size, "none"));
  }
  return text;
}

constexpr const char* kNamesOfTensors =
    "\n## The tensors\n\n"
    "A low-rank MLP weight is stored as two factors, `X_v_proj.weight` (applied first) and\n"
    "`X_u_proj.weight`. In other forms elements of the hidden state, whose numbers are in\n"
    "`X_pivots`, stand for all of it, and `X_pivot_proj.weight` leads from or to the others;\n"
    "`input` is what gate and up share. Rounded weights have their scales beside them as\n"
    "`NAME_scale`, those of 4 bits `NAME_group`, too. `neuronmm_compression` and\n"
    "`neuronmm_quantization` of config.json say which there are.\n";

// Says which code the folder has, so that a reader can check it before they trust it.
std::string code_of_folder() {
  std::string text = fmt::format(
      "\n## The code in this folder\n\n"
      "`trust_remote_code=True` lets transformers run three Python files of this folder. They are "
      "a\n"
      "part of neuronmm {} (`python/transformers` of its source). Nothing of them comes from the\n"
      "original model, and no other file here holds code. `sha256sum` shows whether they are\n"
      "unchanged.\n\n"
      "| file | what it does | SHA-256 |\n|---|---|---|\n",
      code_version());
  for (const CodeFile& file : code_files())
    text += fmt::format("| `{}` | {} | `{}` |\n", file.name, file.job, file.sha256);
  return text;
}

std::string how_to_load(const std::string& folder, bool plain, bool has_code) {
  const std::string by_neuronmm = fmt::format(
      "With neuronmm{1}:\n\n"
      "```\n"
      "neuronmm inspect {0}\n"
      "neuronmm generate {0} \"Once upon a time\"\n"
      "```\n",
      folder, plain || has_code ? "" : ", as no other program has this form");
  if (!plain && !has_code) return "\n## How to load it\n\n" + by_neuronmm;
  return fmt::format(
             "\n## How to load it\n\n"
             "With transformers{1}:\n\n"
             "```python\n"
             "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
             "model = AutoModelForCausalLM.from_pretrained(\"{0}\"{2})\n"
             "tokenizer = AutoTokenizer.from_pretrained(\"{0}\"{2})\n"
             "```\n\n",
             folder, plain ? "" : ", which runs our Python files (see below)",
             plain ? "" : ", trust_remote_code=True") +
         by_neuronmm + (plain ? "" : code_of_folder() + kNamesOfTensors);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> compression_facts(
    const io::CompressionRecord& record, const io::ModelConfig& config, std::string_view weights) {
  if (config.experts) {
    return {{"form", record.form},
            {"ratio asked to be removed from the experts", fmt::format("{:.4g}", record.ratio)},
            {"weights", std::string(weights)}};
  }
  std::vector<std::pair<std::string, std::string>> facts = {
      {"form", fmt::format("{}: {}", record.form, form_text(record.form))},
      {"method", record.method},
      {"ratio asked to be removed from each compressed MLP weight",
       fmt::format("{:.4g}", record.ratio)}};
  // config.json of a plain narrower model does not say how many neurons the original had, so its
  // share cannot be computed.
  const double share = mlp_share(record, config);
  if (!record.pivoted() || share < 1.0) {
    facts.emplace_back("share of the MLP parameters that is kept", fmt::format("{:.4f}", share));
  }
  facts.emplace_back(
      record.pivoted() ? "sizes" : "ranks",
      fmt::format("{} (multiples of {}{}; allocation: {})", sizes_text(record, config),
                  record.block, record.align.empty() ? "" : ", " + record.align, record.allocate));
  if (!record.form_choice.empty()) {
    facts.emplace_back("how the form was chosen", record.form_choice);
  }
  facts.emplace_back("weights", weights);
  return facts;
}

std::string loss_text(const std::optional<MeasuredLoss>& loss) {
  if (!loss) return "not measured";
  return fmt::format(
      "KL {:.4f} nats per token, perplexity {:.2f} (dense {:.2f}), on {} "
      "tokens{}",
      loss->divergence, loss->perplexity, loss->dense_perplexity, loss->tokens,
      loss->held_out ? " that calibration has not seen" : " of the calibration text");
}

// Files that cannot be read are ignored, because a card without a license is better than no model.
ModelCard model_card(const std::filesystem::path& out, const std::filesystem::path& model,
                     std::string_view what) {
  ModelCard card;
  card.title = fmt::format("{}: {}{}", folder_name(out), folder_name(model), what);
  card.folder = folder_name(out);
  const auto config = io::read_text_file(model / "config.json", io::kMaxConfigBytes);
  if (config.ok()) card.base_model = hub_name(io::strict_json(*config));
  const auto readme = io::read_text_file(model / "README.md", io::kMaxConfigBytes);
  if (readme.ok()) card.license = io::license_lines(*readme);
  return card;
}

std::string model_card_text(const ModelCard& card) {
  std::string text = "---\nlibrary_name: transformers\npipeline_tag: text-generation\n";
  if (!card.base_model.empty()) {
    text +=
        fmt::format("base_model: {}\nbase_model_relation: {}\n", card.base_model, card.relation);
  }
  text += card.license + "tags:\n- neuronmm\n";
  for (const std::string& tag : card.tags) text += "- " + tag + "\n";
  text += "---\n\n# " + in_cell(card.title) + "\n\n| | |\n|---|---|\n";
  for (const auto& [name, value] : card.facts) {
    text += "| " + in_cell(name) + " | " + in_cell(value) + " |\n";
  }
  return text + how_to_load(in_cell(card.folder), card.plain, card.has_code);
}

std::string folder_name(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::absolute(folder, ignored).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string_view form_text(std::string_view form) {
  if (form == "pivoted") return "pivoted low-rank MLP weights";
  if (form == "narrow") return "narrow MLPs";
  if (form == "neurons") return "fewer MLP neurons";
  if (form == "mixed") return "narrow MLPs of fewer neurons";
  return "low-rank MLP weights";
}

std::string_view form_tag(std::string_view form) {
  return form == "neurons" ? "pruned" : "low-rank";
}

}  // namespace neuronmm::compress
