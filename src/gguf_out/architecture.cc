#include "gguf_out/architecture.h"

#include <algorithm>
#include <variant>

#include <fmt/ranges.h>

namespace neuronmm::gguf_out {
namespace {

using io::GgufFamily;

const GgufFamily& entry_of(std::string_view architecture) {
  for (const io::Family* family : io::families()) {
    for (const GgufFamily& gguf : family->gguf) {
      if (gguf.architecture == architecture) return gguf;
    }
  }
  NMM_CHECK(false);
}

// Returns the entry in which models of the family are usually written.
const GgufFamily& own_entry(const io::Family& family) {
  if (!family.written_as.empty()) return entry_of(family.written_as);
  // families_test.cc checks that every family of a ModelConfig has one.
  NMM_CHECK(!family.gguf.empty());
  return family.gguf.front();
}

// Returns whether the switches are those of Llama with any biases, which "llama" computes.
bool computes_like_llama(const io::ModelConfig& config) {
  const auto turns = [](const io::LayerAttention& layer) { return layer.rope == 0; };
  const int64_t width = config.ropes.empty() ? 0 : config.ropes.front().rotary_width;
  return !config.experts && config.qkv_clamp == 0.0 && !config.attention_sinks &&
         config.qk_norm == io::QkNorm::kNone && config.input_norms && !config.output_norms &&
         config.gain_offset == 0.0 && config.score_scale == 0.0 && config.embedding_scale == 1.0 &&
         config.residual_scale == 1.0 && config.logit_divisor == 1.0 && config.score_cap == 0.0 &&
         config.logit_cap == 0.0 && config.activation == Activation::kSilu &&
         config.query_temperature.beta == 0.0 && config.ropes.size() == 1 &&
         (width == 0 || width == config.head_dim) && std::ranges::all_of(config.layers, turns);
}

template <typename Scaling>
bool has_scaling(const io::ModelConfig& config) {
  return !config.ropes.empty() && std::holds_alternative<Scaling>(config.ropes.front().scaling);
}

// Returns what the entry does not load of the model, or nothing.
std::string missing_in(const GgufFamily& gguf, const io::ModelConfig& config) {
  if (config.mlp_bias && !gguf.loads_output_biases) return "biases of the MLP";
  if (config.attention_output_bias && !gguf.loads_output_biases)
    return "a bias of the attention's output";
  if (has_scaling<io::Llama3RopeScaling>(config) && !gguf.loads_rope_divisors)
    return "RoPE scaling of the type llama3";
  if (has_scaling<io::LongRopeScaling>(config) && !gguf.own_rope)
    return "RoPE scaling of the type longrope";
  const int64_t width = config.num_attention_heads * config.head_dim;
  if ((gguf.architecture == "qwen2" || gguf.architecture == "phi3") && width != config.hidden_size)
    return fmt::format("heads of together {} elements in a model of {}", width, config.hidden_size);
  // It expects norms of q and k of one width.
  if (gguf.architecture == "olmoe" && config.num_key_value_heads != config.num_attention_heads)
    return fmt::format("{} key-value heads for {} heads", config.num_key_value_heads,
                       config.num_attention_heads);
  if (gguf.head == GgufFamily::Head::kTable && !config.tie_word_embeddings)
    return "an LM head that is not the embedding table";
  return {};
}

// Fails on variants of yarn that llama.cpp does not compute.
Status check_yarn(const GgufFamily& gguf, const io::ModelConfig& config, const std::string& name) {
  if (config.ropes.empty()) return {};
  const auto* const yarn = std::get_if<io::YarnRopeScaling>(&config.ropes.front().scaling);
  if (yarn == nullptr) return {};
  const bool own_betas = gguf.architecture == "mistral3";
  if (!own_betas && (yarn->beta_fast != 32.0 || yarn->beta_slow != 1.0))
    return fail("{}: yarn with beta_fast {} and beta_slow {}: llama.cpp computes 32 and 1 only",
                name, yarn->beta_fast, yarn->beta_slow);
  // It also rounds for gpt-oss, whose published files have this setting nevertheless.
  if (!yarn->truncate && gguf.architecture != "gpt-oss")
    return fail("{}: yarn without \"truncate\": llama.cpp always rounds to whole pairs", name);
  return {};
}

int64_t rounded_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Returns the number of which compressed MLPs get a multiple, so that rows of down are whole
// blocks. A row of hidden_size weights that is no multiple of 256 gets blocks of 32 anyway.
int64_t block_of(const TypeMix& mix, const io::ModelConfig& config) {
  const int64_t block = info(mix.most).block_elements;
  return block == 256 && config.hidden_size % 256 != 0 ? 32 : block;
}

// Describes the weights that neurons of zeros add, as a share of all MLPs.
std::string padding_text(int64_t neurons_before, int64_t neurons_after) {
  const double ratio = static_cast<double>(neurons_after) / static_cast<double>(neurons_before);
  return fmt::format("{:.0f} % more weights in MLPs", 100.0 * (ratio - 1.0));
}

// Says what it costs that llama.cpp has one size for all experts.
void add_experts_note(const SourceModel& source, ArchitectureOut& out) {
  int64_t before = 0, count = 0;
  for (const model::LayerWeights& layer : source.layers) {
    if (!layer.mixture) continue;
    for (const ops::MlpWeight& expert : layer.mixture->experts) before += expert.neurons();
    count += std::ssize(layer.mixture->experts);
  }
  const int64_t after = count * out.expert_neurons;
  if (after == before) return;
  out.notes.push_back(
      fmt::format("{:?} has one size for all experts: they are filled with zeros up to {} neurons "
                  "({})",
                  out.gguf->architecture, out.expert_neurons, padding_text(before, after)));
}

// Sets the sizes of compressed MLPs, and the architecture that has sizes for each layer if the
// sizes differ and there is one.
void choose_sizes(const SourceModel& source, const TypeMix& mix, ArchitectureOut& out) {
  const io::ModelConfig& config = source.config;
  const int64_t block = source.has_fewer_neurons() ? block_of(mix, config) : 1;
  if (config.experts) {
    const int64_t neurons = source.expert_neurons();
    out.expert_neurons =
        std::min(rounded_up(neurons, block), std::max(config.experts->width, neurons));
    out.neurons.assign(static_cast<size_t>(config.num_hidden_layers),
                       out.has_expert_key() ? config.intermediate_size : out.expert_neurons);
    add_experts_note(source, out);
    return;
  }
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    out.neurons.push_back(std::min(rounded_up(source.neurons(layer), block),
                                   std::max(config.intermediate_size, source.neurons(layer))));
  if (!out.has_unequal_sizes()) return;
  const bool as_llama = computes_like_llama(config) && out.gguf->loads_output_biases;
  const bool qwen2 = computes_like_llama(config) && out.gguf->architecture == "qwen2";
  const bool qwen3 =
      out.gguf->architecture == "qwen3" && config.tie_word_embeddings && !config.attention_bias;
  if (as_llama || qwen2 || qwen3) {
    out.gguf = &entry_of(qwen3 ? "openelm" : "deci");
    out.notes.push_back(
        fmt::format("layers have MLPs of their own sizes, as llama.cpp's architecture {:?} has "
                    "them; other programs may not load it",
                    out.gguf->architecture));
    return;
  }
  int64_t before = 0;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    before += source.neurons(layer);
  std::ranges::fill(out.neurons, std::ranges::max(out.neurons));
  const int64_t after = config.num_hidden_layers * out.neurons.front();
  out.notes.push_back(
      fmt::format("{:?} has one size for all layers: MLPs are filled with zeros up to the largest, "
                  "{} neurons ({})",
                  out.gguf->architecture, out.neurons.front(), padding_text(before, after)));
}

// Fails if some layers have experts and others have none.
Status check_experts(const io::ModelConfig& config, const std::string& name) {
  for (int64_t layer = 0; config.experts && layer < config.num_hidden_layers; ++layer) {
    if (!config.is_mixture(layer))
      return fail("{}: layer {} has one MLP and others have experts: llama.cpp has experts in all",
                  name, layer);
  }
  return {};
}

// Describes windows that llama.cpp ignores. The key is written nevertheless, because neuronmm and
// perhaps later versions read it.
Status add_windows_note(const io::ModelConfig& config, const std::string& name,
                        ArchitectureOut& out) {
  if (out.gguf->own_windows || !config.has_window()) return {};
  int64_t window = 0;
  bool all = true;
  for (const io::LayerAttention& layer : config.layers) {
    all = all && (window == 0 || layer.window == window);
    window = std::max(window, layer.window);
  }
  if (window >= config.max_position_embeddings) return {};
  if (!all || config.layers.front().window == 0)
    return fail("{}: a window in some layers: llama.cpp's architecture {:?} has none", name,
                out.gguf->architecture);
  out.notes.push_back(
      fmt::format("llama.cpp's {:?} ignores the window of {} tokens: there, keep contexts below it "
                  "(-c {})",
                  out.gguf->architecture, window, window));
  return {};
}

// Says that llama.cpp rounds where the files of gpt-oss do not (check_yarn).
void add_yarn_note(const io::ModelConfig& config, ArchitectureOut& out) {
  if (config.ropes.empty()) return;
  const auto* const yarn = std::get_if<io::YarnRopeScaling>(&config.ropes.front().scaling);
  if (yarn == nullptr || yarn->truncate) return;
  out.notes.push_back(fmt::format(
      "llama.cpp's {:?} rounds the limits of yarn to whole pairs, which this model does "
      "not: its logits differ there",
      out.gguf->architecture));
}

}  // namespace

bool ArchitectureOut::has_expert_key() const {
  return std::ranges::find(gguf->keys, "expert_feed_forward_length") != gguf->keys.end();
}

bool ArchitectureOut::has_unequal_sizes() const {
  return std::ranges::min(neurons) != std::ranges::max(neurons);
}

Result<ArchitectureOut> choose_architecture(const SourceModel& source, const TypeMix& mix,
                                            const std::string& name) {
  const io::ModelConfig& config = source.config;
  ArchitectureOut out{.gguf = &own_entry(io::family_of(config.architecture))};
  std::string missing = missing_in(*out.gguf, config);
  if (!missing.empty() && computes_like_llama(config)) {
    out.gguf = &entry_of("llama");
    missing = missing_in(*out.gguf, config);
  }
  if (!missing.empty())
    return fail("{}: llama.cpp's architecture {:?} does not compute {}", name,
                out.gguf->architecture, missing);
  NMM_TRY(check_yarn(*out.gguf, config, name));
  NMM_TRY(check_experts(config, name));
  choose_sizes(source, mix, out);
  NMM_TRY(add_windows_note(config, name, out));
  add_yarn_note(config, out);
  if (source.has_factors()) {
    const bool bases = config.experts && !config.experts->bases.empty();
    out.notes.push_back(
        fmt::format("{} are multiplied out, because llama.cpp has none: they save nothing there",
                    bases ? "shared bases" : "factors and pivots"));
  }
  return out;
}

}  // namespace neuronmm::gguf_out
