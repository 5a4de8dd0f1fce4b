#include "gguf_out/metadata.h"

#include <cmath>
#include <string_view>
#include <variant>

#include <nlohmann/json.hpp>

#include "gguf/gguf_shards.h"
#include "gguf/rope_scaling.h"
#include "io/front_matter.h"
#include "io/generation_config.h"
#include "io/text_file.h"

namespace neuronmm::gguf_out {
namespace {

namespace fs = std::filesystem;

// Adds keys with the prefix of an architecture.
class ArchitecturePairs final : public io::GgufKeys {
 public:
  ArchitecturePairs(std::string_view architecture, Pairs& pairs)
      : prefix_(fmt::format("{}.", architecture)), pairs_(pairs) {}

  void integer(std::string_view key, int64_t value) override { pairs_.u32(name(key), value); }
  void number(std::string_view key, double value) override { pairs_.f32(name(key), value); }
  void boolean(std::string_view key, bool value) override { pairs_.boolean(name(key), value); }
  void booleans(std::string_view key, const std::vector<bool>& values) override {
    pairs_.booleans(name(key), values);
  }
  void tensor(std::string_view tensor_name, const std::vector<double>& values) override {
    numbers_.push_back({std::string(tensor_name), {values.begin(), values.end()}});
  }
  void text(std::string_view key, std::string_view value) { pairs_.text(name(key), value); }
  void integers(std::string_view key, const std::vector<int64_t>& values) {
    pairs_.i32s(name(key), values);
  }
  std::vector<NumbersOut> take_numbers() { return std::move(numbers_); }

 private:
  std::string name(std::string_view key) const { return prefix_ + std::string(key); }

  std::string prefix_;
  Pairs& pairs_;
  std::vector<NumbersOut> numbers_;
};

void add_scaling(const std::monostate&, const io::RopeTable&, int64_t, ArchitecturePairs&) {}
// Dynamic scaling changes nothing up to max_position_embeddings.
void add_scaling(const io::DynamicRopeScaling&, const io::RopeTable&, int64_t, ArchitecturePairs&) {
}
// The family writes its lists.
void add_scaling(const io::LongRopeScaling&, const io::RopeTable&, int64_t, ArchitecturePairs&) {}

void add_scaling(const io::LinearRopeScaling& linear, const io::RopeTable&, int64_t,
                 ArchitecturePairs& keys) {
  keys.text("rope.scaling.type", "linear");
  keys.number("rope.scaling.factor", linear.factor);
}

void add_scaling(const io::Llama3RopeScaling& llama3, const io::RopeTable& table, int64_t width,
                 ArchitecturePairs& keys) {
  std::vector<double> divisors;
  const auto pairs = static_cast<size_t>(width / 2);
  for (size_t j = 0; j < pairs; ++j)
    divisors.push_back(gguf::llama3_divisor(j, pairs, table.theta, llama3));
  keys.tensor("rope_freqs.weight", divisors);
}

// llama.cpp multiplies by 1 + 0.1 log(factor) itself.
void add_scaling(const io::YarnRopeScaling& yarn, const io::RopeTable&, int64_t,
                 ArchitecturePairs& keys) {
  keys.text("rope.scaling.type", "yarn");
  keys.number("rope.scaling.factor", yarn.factor);
  keys.integer("rope.scaling.original_context_length",
               static_cast<int64_t>(yarn.original_max_position_embeddings));
  if (yarn.attention_factor)
    keys.number("rope.scaling.attn_factor",
                *yarn.attention_factor / (1.0 + 0.1 * std::log(yarn.factor)));
}

void add_rope(const io::ModelConfig& config, ArchitecturePairs& keys) {
  if (config.ropes.empty()) return;
  const io::RopeTable& table = config.ropes.front();
  const int64_t width = table.rotary_width > 0 ? table.rotary_width : config.head_dim;
  keys.integer("rope.dimension_count", width);
  keys.number("rope.freq_base", table.theta);
  std::visit([&](const auto& scaling) { add_scaling(scaling, table, width, keys); }, table.scaling);
}

// Adds the window of an architecture that has one for all layers (architecture.cc).
void add_window(const io::ModelConfig& config, ArchitecturePairs& keys) {
  const int64_t window = config.attention_of(0).window;
  if (window > 0) keys.integer("attention.sliding_window", window);
}

void add_experts(const io::Experts& experts, const ArchitectureOut& architecture,
                 ArchitecturePairs& keys) {
  keys.integer("expert_count", experts.count);
  keys.integer("expert_used_count", experts.active);
  if (architecture.has_expert_key())
    keys.integer("expert_feed_forward_length", architecture.expert_neurons);
}

// Returns the number of parameters as file names have it: "494M", "1.2B".
std::string size_label(int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  if (count < 1e9) return fmt::format("{:.0f}M", count / 1e6);
  return fmt::format("{:.1f}B", count / 1e9);
}

std::string name_of(const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

// Adds the licence of the model's README.md.
void add_license(const fs::path& folder, Pairs& pairs) {
  const auto readme = io::read_text_file(folder / "README.md", io::kMaxConfigBytes);
  if (!readme.ok()) return;
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
      {"license: ", "general.license"},
      {"license_name: ", "general.license.name"},
      {"license_link: ", "general.license.link"}};
  const std::string lines = io::license_lines(*readme);
  for (std::string_view rest = lines; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    for (const auto& [begin, key] : kKeys) {
      if (line.starts_with(begin)) pairs.text(key, line.substr(begin.size()));
    }
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
}

// Copies what another GGUF file says about the origin of the model and about drawing tokens.
void copy_origin(const fs::path& file, Pairs& pairs) {
  const auto shards = io::GgufShards::open(file);
  if (!shards.ok()) return;
  const io::GgufMetadata& metadata = shards->metadata();
  for (const char* const key :
       {"general.name", "general.basename", "general.finetune", "general.version",
        "general.organization", "general.author", "general.description", "general.license",
        "general.license.name", "general.license.link", "general.repo_url"}) {
    const auto text = metadata.string(key);
    if (text.ok() && *text) pairs.text(key, **text);
  }
  for (const char* const key : {"general.sampling.temp", "general.sampling.top_p",
                                "general.sampling.min_p", "general.sampling.penalty_repeat"}) {
    const auto number = metadata.number(key);
    if (number.ok() && *number) pairs.f32(key, **number);
  }
  const auto top_k = metadata.integer("general.sampling.top_k");
  if (top_k.ok() && *top_k) pairs.i32("general.sampling.top_k", **top_k);
}

// Adds how the model was compressed, without the sizes, which the file's own keys say.
void add_record(const io::CompressionRecord& record, Pairs& pairs) {
  nlohmann::ordered_json json = {{"method", record.method},
                                 {"ratio", record.ratio},
                                 {"block", record.block},
                                 {"allocate", record.allocate}};
  if (!record.calibration.empty()) json["calibration"] = io::calibration_json(record.calibration);
  using Json = nlohmann::ordered_json;
  pairs.text("neuronmm.compression", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::vector<NumbersOut> add_architecture(const SourceModel& source,
                                         const ArchitectureOut& architecture, Pairs& pairs) {
  const io::ModelConfig& config = source.config;
  const io::GgufFamily& gguf = *architecture.gguf;
  ArchitecturePairs keys(gguf.architecture, pairs);
  pairs.text("general.architecture", gguf.architecture);
  pairs.text("general.type", "model");
  keys.integer("context_length", config.max_position_embeddings);
  keys.integer("embedding_length", config.hidden_size);
  keys.integer("block_count", config.num_hidden_layers);
  if (architecture.has_unequal_sizes())
    keys.integers("feed_forward_length", architecture.neurons);
  else
    keys.integer("feed_forward_length", architecture.neurons.front());
  if (config.experts) add_experts(*config.experts, architecture, keys);
  keys.integer("attention.head_count", config.num_attention_heads);
  keys.integer("attention.head_count_kv", config.num_key_value_heads);
  keys.integer("attention.key_length", config.head_dim);
  keys.integer("attention.value_length", config.head_dim);
  keys.number("attention.layer_norm_rms_epsilon", config.rms_norm_eps);
  keys.integer("vocab_size", config.vocab_size);
  add_rope(config, keys);
  if (!gguf.own_windows) add_window(config, keys);
  if (gguf.write != nullptr) gguf.write(config, keys);
  return keys.take_numbers();
}

void add_names(const SourceModel& source, const fs::path& folder, const TypeMix& mix,
               const std::string& producer, Pairs& pairs) {
  if (source.checkpoint.mounted()) copy_origin(folder, pairs);
  pairs.text("general.name", name_of(folder));
  pairs.text("general.size_label", size_label(source.checkpoint.parameters()));
  add_license(folder, pairs);
  pairs.text("general.quantized_by", producer);
  pairs.u32("general.quantization_version", 2);
  pairs.u32("general.file_type", mix.file_type);
  if (source.config.compression) add_record(*source.config.compression, pairs);
}

Status add_sampling(const fs::path& folder, Pairs& pairs) {
  NMM_ASSIGN(const auto config, io::GenerationConfig::load(folder));
  if (!config.do_sample.value_or(false)) return {};
  const auto add = [&](std::string_view key, const std::optional<double>& value) {
    if (value) pairs.f32(key, *value);
  };
  add("general.sampling.temp", config.temperature);
  add("general.sampling.top_p", config.top_p);
  add("general.sampling.min_p", config.min_p);
  add("general.sampling.penalty_repeat", config.repetition_penalty);
  if (config.top_k) pairs.i32("general.sampling.top_k", *config.top_k);
  return {};
}

}  // namespace neuronmm::gguf_out
