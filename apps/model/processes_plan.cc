#include "model/processes_plan.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/layer_weights.h"
#include "model/transformer.h"
#include "tensor_parallel/heads.h"
#include "tensor_parallel/plan.h"

namespace neuronmm::apps {
namespace {

using parallel::Wire;
using tensor_parallel::LayoutCost;
using tensor_parallel::Machine;

// Bytes read from memory per second and operations per second of one process. Assumed: they are
// typical of two cores of 2024. The report says that they are assumed; a run under mpirun measures
// its own values.
constexpr double kMemoryBandwidth = 1.2e10, kOperationsPerSecond = 1.0e11;
// A link between processes whose times the report predicts. Assumed.
struct Link {
  const char* name;
  Machine machine;
};
const Link kLinks[] = {
    {"memory of one host, 5 us, 4 GB/s", {5e-6, 4e9, kMemoryBandwidth, kOperationsPerSecond}},
    {"10 Gbit/s, 60 us", {6e-5, 1.15e9, kMemoryBandwidth, kOperationsPerSecond}},
    {"1 Gbit/s, 200 us", {2e-4, 1.15e8, kMemoryBandwidth, kOperationsPerSecond}},
};

// The plan of one layer.
struct LayerPlan {
  std::vector<LayoutCost> costs;                   // one per layout that the MLP's form allows
  std::vector<tensor_parallel::MlpLayout> chosen;  // one per link
  int64_t attention_bytes = 0;
  bool operator==(const LayerPlan& other) const {
    return chosen == other.chosen && costs.size() == other.costs.size() &&
           costs.back().weight_bytes == other.costs.back().weight_bytes &&
           costs.back().values_per_token == other.costs.back().values_per_token;
  }
};

int64_t share_of_bytes(const ops::LinearWeight& weight, int64_t part, int64_t whole) {
  return weight.stored_bytes() * part / whole;
}

// Returns the bytes of attention weights in process 0. No process has more heads than process 0.
int64_t attention_bytes(const model::LayerWeights& weights, const ops::AttentionShape& whole,
                        bool quantized, int processes) {
  const auto heads = tensor_parallel::heads_of(whole, quantized, 0, processes);
  const auto kv = tensor_parallel::kv_heads_of(whole, heads);
  return share_of_bytes(weights.q, heads.count, whole.num_attention_heads) +
         share_of_bytes(weights.o, heads.count, whole.num_attention_heads) +
         share_of_bytes(weights.k, kv.count, whole.num_key_value_heads) +
         share_of_bytes(weights.v, kv.count, whole.num_key_value_heads);
}

void print_heads(const ReportWriter& writer, const ops::AttentionShape& whole, bool quantized,
                 int processes) {
  std::vector<int64_t> heads, kv_heads;
  for (int i = 0; i < processes; ++i) {
    const auto range = tensor_parallel::heads_of(whole, quantized, i, processes);
    heads.push_back(range.count);
    kv_heads.push_back(tensor_parallel::kv_heads_of(whole, range).count);
  }
  writer.print("\n{} processes\n  {:<24}{} of {}; kv heads {} of {}\n", processes, "heads",
               fmt::join(heads, " + "), whole.num_attention_heads, fmt::join(kv_heads, " + "),
               whole.num_key_value_heads);
  if (whole.num_attention_heads % processes == 0) return;
  std::vector<int64_t> even;
  for (int64_t p = 2; p <= whole.num_attention_heads; ++p) {
    if (whole.num_attention_heads % p == 0) even.push_back(p);
  }
  writer.print("  {:<24}the largest share decides how long a pass takes; even with {} processes\n",
               "", fmt::join(even, ", "));
}

void print_layer(const ReportWriter& writer, const std::string& range, const LayerPlan& layer,
                 int processes) {
  for (const LayoutCost& cost : layer.costs) {
    std::vector<std::string> times;
    for (size_t i = 0; i < std::size(kLinks); ++i) {
      times.push_back(fmt::format("{:>9.1f}{}",
                                  1e6 * cost.seconds(kLinks[i].machine, 1, processes, Wire::kFp32),
                                  layer.chosen[i] == cost.layout ? "*" : " "));
    }
    writer.print("{:<8}{:<15}{:>3}{:>12.0f}{:>12.3f}   {}\n", range,
                 tensor_parallel::layout_name(cost.layout), cost.collectives,
                 cost.bytes_per_token(processes, Wire::kFp32),
                 static_cast<double>(cost.weight_bytes) / 1e6, fmt::join(times, " "));
  }
}

Result<std::vector<LayerPlan>> read_plans(const io::Checkpoint& checkpoint,
                                          const io::ModelConfig& config, int processes) {
  std::vector<LayerPlan> layers;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint, config, i));
    LayerPlan layer = {
        weights.mixture ? std::vector{tensor_parallel::mixture_cost(*weights.mixture, 0, processes)}
                        : tensor_parallel::layout_costs(weights.mlp, 0, processes),
        {},
        0};
    for (const Link& link : kLinks) {
      layer.chosen.push_back(
          tensor_parallel::choose_layout(layer.costs, link.machine, processes, Wire::kFp32).layout);
    }
    layer.attention_bytes = attention_bytes(weights, model::attention_shape(config, i),
                                            config.quantization.has_value(), processes);
    layers.push_back(std::move(layer));
  }
  return layers;
}

const LayoutCost& chosen_cost(const LayerPlan& layer, size_t link) {
  for (const LayoutCost& cost : layer.costs) {
    if (cost.layout == layer.chosen[link]) return cost;
  }
  return layer.costs.front();
}

void print_sums(const ReportWriter& writer, const std::vector<LayerPlan>& layers,
                const io::Checkpoint& checkpoint, const io::ModelConfig& config, int processes) {
  const double ring = static_cast<double>(processes - 1) / processes * bytes_of(Wire::kFp32);
  const std::string head = config.tie_word_embeddings
                               ? model::tensor_prefix(checkpoint) + "embed_tokens.weight"
                               : "lm_head.weight";
  const auto found = checkpoint.tensors().find(head);
  const int64_t head_bytes = found == checkpoint.tensors().end() ? 0 : found->second.size_bytes();
  for (size_t link = 0; link < std::size(kLinks); ++link) {
    double mlps = 0;
    int64_t memory = head_bytes / processes;
    for (const LayerPlan& layer : layers) {
      mlps += chosen_cost(layer, link).bytes_per_token(processes, Wire::kFp32);
      memory += chosen_cost(layer, link).weight_bytes + layer.attention_bytes;
    }
    const double attention =
        ring * 2 * static_cast<double>(config.hidden_size) * static_cast<double>(layers.size());
    writer.print(
        "  {:<36}{:.0f} bytes per token sent by each process ({:.0f} of attention, {:.0f} "
        "of MLPs), {:.1f} MB of weights in process 0\n",
        kLinks[link].name, attention + mlps, attention, mlps, static_cast<double>(memory) / 1e6);
  }
  writer.print(
      "  beside that process 0 gets 12 bytes of each other process per greedy token, and {:.0f} of "
      "all of them per row whose logits it needs whole\n",
      ring * static_cast<double>(config.vocab_size));
}

}  // namespace

Status print_processes(const ReportWriter& writer, const io::Checkpoint& checkpoint,
                       const io::ModelConfig& config, int processes) {
  const ops::AttentionShape whole = model::attention_shape(config, 0);
  const bool quantized = config.quantization.has_value();
  NMM_TRY(tensor_parallel::check_heads(whole, quantized, processes));
  NMM_ASSIGN(const auto layers, read_plans(checkpoint, config, processes));
  print_heads(writer, whole, quantized, processes);
  writer.print("\n{:<8}{:<15}{:>3}{:>12}{:>12}   {}\n", "layers", "MLP layout", "n", "B/token",
               "MB each", "us per MLP when decoding, * chosen, with links that are assumed:");
  for (const Link& link : kLinks) writer.print("{:>53}  {}\n", "", link.name);
  for (size_t first = 0, last = 0; first < layers.size(); first = last) {
    while (last < layers.size() && layers[last] == layers[first]) ++last;
    print_layer(
        writer,
        last - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, last - 1),
        layers[first], processes);
  }
  writer.print("\n");
  print_sums(writer, layers, checkpoint, config, processes);
  return {};
}

}  // namespace neuronmm::apps
