#include "gguf_out/file_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "gguf/model_plan.h"
#include "gguf/vocabulary.h"
#include "model/rope.h"

namespace neuronmm::gguf_out {
namespace {

// The largest relative difference of numbers that are the same. The file has them in fp32, and the
// parameters of llama3 are fitted to divisors of fp32.
constexpr double kSame = 1e-4;

bool same(double a, double b) {
  return std::abs(a - b) <= kSame * std::max(std::abs(a), std::abs(b));
}

// Memory of the size of a file, of which only the pages that are written take any.
class SparseFile {
 public:
  explicit SparseFile(size_t size)
      : size_(size),
        data_(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~SparseFile() { munmap(data_, size_); }
  SparseFile(const SparseFile&) = delete;
  SparseFile& operator=(const SparseFile&) = delete;

  void write(size_t offset, const void* bytes, size_t count) {
    if (count > 0) std::memcpy(static_cast<char*>(data_) + offset, bytes, count);
  }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  size_t size_;
  void* data_;
};

// Makes the file with zeros in the place of all matrices.
std::unique_ptr<SparseFile> file_of(const Pairs& pairs, const TensorPlan& plan) {
  std::vector<TensorInfo> infos;
  int64_t data = 0;
  for (const PlannedTensor& tensor : plan.tensors) {
    infos.push_back(tensor.info);
    data += tensor.info.bytes() + container_padding(tensor.info.bytes());
  }
  const std::string header = container_header(pairs, infos);
  auto file = std::make_unique<SparseFile>(header.size() + static_cast<size_t>(data));
  file->write(0, header.data(), header.size());
  size_t offset = header.size();
  for (const PlannedTensor& tensor : plan.tensors) {
    file->write(offset, tensor.values.data(), tensor.values.size() * sizeof(float));
    offset += static_cast<size_t>(tensor.info.bytes() + container_padding(tensor.info.bytes()));
  }
  return file;
}

// Collects what differs between two configs.
class Comparison {
 public:
  Comparison(const io::ModelConfig& wanted, const io::ModelConfig& found)
      : wanted_(wanted), found_(found) {}

  std::string first_difference() {
    sizes();
    switches();
    experts();
    attention();
    return difference_;
  }

 private:
  void number(std::string_view what, double wanted, double found) {
    if (!same(wanted, found)) differs(what, wanted, found);
  }
  template <typename Value>
  void differs(std::string_view what, const Value& wanted, const Value& found) {
    if (difference_.empty())
      difference_ = fmt::format("{} would be {} instead of {}", what, found, wanted);
  }
  void flag(std::string_view what, bool wanted, bool found) {
    if (wanted != found) differs(what, wanted, found);
  }

  void sizes() {
    const auto size = [&](std::string_view what, int64_t wanted, int64_t found) {
      if (wanted != found) differs(what, wanted, found);
    };
    size("hidden_size", wanted_.hidden_size, found_.hidden_size);
    size("num_hidden_layers", wanted_.num_hidden_layers, found_.num_hidden_layers);
    size("num_attention_heads", wanted_.num_attention_heads, found_.num_attention_heads);
    size("num_key_value_heads", wanted_.num_key_value_heads, found_.num_key_value_heads);
    size("head_dim", wanted_.head_dim, found_.head_dim);
    size("vocab_size", wanted_.vocab_size, found_.vocab_size);
    size("max_position_embeddings", wanted_.max_position_embeddings,
         found_.max_position_embeddings);
  }

  void switches() {
    number("the epsilon of norms", wanted_.rms_norm_eps, found_.rms_norm_eps);
    flag("norms of inputs", wanted_.input_norms, found_.input_norms);
    flag("norms of outputs", wanted_.output_norms, found_.output_norms);
    number("the factor of attention scores", score_scale(wanted_), score_scale(found_));
    number("the factor of embeddings", wanted_.embedding_scale, found_.embedding_scale);
    number("the factor of residuals", wanted_.residual_scale, found_.residual_scale);
    number("the divisor of logits", wanted_.logit_divisor, found_.logit_divisor);
    number("the cap of attention scores", wanted_.score_cap, found_.score_cap);
    number("the cap of logits", wanted_.logit_cap, found_.logit_cap);
    flag("SiLU", wanted_.activation == Activation::kSilu, found_.activation == Activation::kSilu);
    number("the growth of queries", wanted_.query_temperature.beta, found_.query_temperature.beta);
    if (wanted_.query_temperature.beta != 0.0)
      number("the context without growth of queries",
             static_cast<double>(wanted_.query_temperature.original_context),
             static_cast<double>(found_.query_temperature.original_context));
    flag("biases of q, k and v", wanted_.attention_bias, found_.attention_bias);
    flag("the bias of the attention's output", wanted_.attention_output_bias,
         found_.attention_output_bias);
    flag("biases of the MLP", wanted_.mlp_bias, found_.mlp_bias);
    number("the kind of norms of q and k", static_cast<double>(wanted_.qk_norm),
           static_cast<double>(found_.qk_norm));
    flag("norms of q and k behind RoPE", wanted_.qk_norm_after_rope, found_.qk_norm_after_rope);
  }

  void experts() {
    flag("sinks of attention", wanted_.attention_sinks, found_.attention_sinks);
    number("the limit of queries, keys and values", wanted_.qkv_clamp, found_.qkv_clamp);
    if (wanted_.activation == Activation::kClampedSwiglu) {
      number("the limit of SwiGLU", wanted_.swiglu_clamp.limit, found_.swiglu_clamp.limit);
      number("the factor of SwiGLU", wanted_.swiglu_clamp.alpha, found_.swiglu_clamp.alpha);
    }
    flag("a mixture of experts", wanted_.experts.has_value(), found_.experts.has_value());
    if (!wanted_.experts || !found_.experts) return;
    const io::Experts &wanted = *wanted_.experts, &found = *found_.experts;
    number("the number of experts", static_cast<double>(wanted.count),
           static_cast<double>(found.count));
    number("the number of active experts", static_cast<double>(wanted.active),
           static_cast<double>(found.active));
    flag("the division of experts' weights by their sum", wanted.divided, found.divided);
    flag("the bias of the router", wanted.router_bias, found.router_bias);
  }

  static double score_scale(const io::ModelConfig& config) {
    return config.score_scale != 0.0 ? config.score_scale
                                     : 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  }

  // A window as long as the longest sequence has no effect.
  static int64_t window_of(const io::ModelConfig& config, int64_t layer) {
    const int64_t window = config.attention_of(layer).window;
    return window >= config.max_position_embeddings ? 0 : window;
  }

  void attention() {
    const model::RotaryTables wanted(wanted_), found(found_);
    for (int64_t layer = 0; layer < std::min(wanted_.num_hidden_layers, found_.num_hidden_layers);
         ++layer) {
      if (window_of(wanted_, layer) != window_of(found_, layer))
        differs(fmt::format("the window of layer {}", layer), window_of(wanted_, layer),
                window_of(found_, layer));
      rope(layer, wanted.at(wanted_.attention_of(layer).rope),
           found.at(found_.attention_of(layer).rope));
    }
  }

  void rope(int64_t layer, const ops::RotaryEmbedding& wanted, const ops::RotaryEmbedding& found) {
    const auto equal = [](const std::vector<float>& a, const std::vector<float>& b) {
      return std::ranges::equal(a, b, [](float x, float y) { return same(x, y); });
    };
    const bool all = equal(wanted.inverse_frequencies, found.inverse_frequencies) &&
                     equal(wanted.long_inverse_frequencies, found.long_inverse_frequencies) &&
                     same(wanted.attention_factor, found.attention_factor);
    if (!all && difference_.empty())
      difference_ = fmt::format("the RoPE table of layer {} would be another one", layer);
  }

  const io::ModelConfig &wanted_, &found_;
  std::string difference_;
};

}  // namespace

Status check_file(const SourceModel& source, const ArchitectureOut& architecture,
                  const Pairs& pairs, const TensorPlan& plan, const std::string& name) {
  const std::string what =
      fmt::format("{}: as llama.cpp's architecture {:?}", name, architecture.gguf->architecture);
  const auto file = file_of(pairs, plan);
  NMM_ASSIGN(const auto shards, io::GgufShards::parse(file->bytes(), what));
  NMM_ASSIGN(const auto vocabulary, gguf::read_vocabulary(shards.metadata()));
  NMM_ASSIGN(const auto model, gguf::plan_model(shards, vocabulary ? &*vocabulary : nullptr,
                                                source.config.dtype, gguf::both_tables(shards)));
  const std::string difference = Comparison(source.config, model.config).first_difference();
  if (!difference.empty()) return fail("{}: {}", what, difference);
  return {};
}

}  // namespace neuronmm::gguf_out
