#include "finetune/memory_need.h"

#include <algorithm>
#include <fstream>

#include "base/memory_limit.h"

namespace neuronmm::finetune {
namespace {

constexpr int64_t kFloat = 4;
constexpr int64_t kLogitRows = 256;  // of training/head.cc
// The program itself, beside its matrices. Measured with the bundled model: 60 MB.
constexpr int64_t kProgramBytes = int64_t{64} << 20;
// The share of the usable memory that a run plans with. Assumed: the rest is for files that are
// being read and written, and for what the estimate misses.
constexpr double kPlanned = 0.9;

// A run that would need more than half of the memory keeps activations of this size. Assumed:
// computing the rest again takes a fifth of a step, and other programs need memory, too.
constexpr int64_t kLeastActivations = int64_t{1} << 30;

// The elements that a layer keeps of a token: inputs of its products and their packings, norms,
// queries, keys and values before and after RoPE, gates. Each of a token's experts has a copy of
// its input and an output. Measured in tests/finetune.
int64_t kept_of_token(const io::ModelConfig& config) {
  const int64_t heads = config.num_attention_heads + 2 * config.num_key_value_heads;
  const int64_t copies = config.experts ? 3 * config.experts->active : 0;
  return (10 + copies) * config.hidden_size + 4 * heads * config.head_dim +
         7 * config.active_neurons();
}

std::string gigabytes(int64_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) * 1e-9);
}

// Returns the memory that Linux could give to new allocations, or INT64_MAX if it does not say.
int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kilobytes = 0;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes << 10;
    std::getline(file, unit);
  }
  return INT64_MAX;
}

}  // namespace

// A trained element has a value, a gradient, two moments, the best value and both packings. Others
// have both packings, and the teacher's have one.
MemoryNeed memory_need(const MemoryCase& run) {
  const int64_t packed = run.precision == training::Precision::kBf16 ? 2 : 4;
  const int64_t trained = 5 * kFloat;
  const int64_t table = run.config.vocab_size * run.config.hidden_size;
  MemoryNeed need;
  need.fixed = kProgramBytes + 2 * packed * (run.layer_parameters + table);
  need.fixed += run.adapter_parameters > 0 ? (trained + 2 * packed) * run.adapter_parameters
                                           : trained * run.layer_parameters;
  if (run.rounded) need.fixed += kFloat * table;
  if (run.teacher_parameters > 0) need.fixed += packed * (run.teacher_parameters + table);
  // Logits of both models, and two packings of their gradient.
  need.fixed += (3 * kFloat + 2 * packed) * kLogitRows * run.config.vocab_size;
  const int64_t layer = kFloat * run.together * kept_of_token(run.config);
  need.activations = layer * run.config.num_hidden_layers;
  // One layer is kept in any case, with its gradients, and the input of every layer.
  need.fixed +=
      2 * layer + kFloat * run.together * run.config.hidden_size * run.config.num_hidden_layers;
  return need;
}

int64_t usable_memory() {
  const int64_t resident = memory_use().anonymous;
  int64_t usable = std::min(machine_memory_bytes(), available_bytes());
  if (const auto limit = container_memory_limit()) {
    usable = std::min(usable, limit->bytes - resident);
  }
  return std::min(usable, mappable_bytes());
}

Result<int64_t> activation_budget(const MemoryCase& run, int64_t usable, const std::string& model) {
  const auto planned = static_cast<int64_t>(kPlanned * static_cast<double>(usable));
  const MemoryNeed need = memory_need(run);
  if (need.fixed <= planned) {
    const int64_t comfortable = std::max(kLeastActivations, planned / 2 - need.fixed);
    return std::min({need.activations, planned - need.fixed, comfortable});
  }
  std::string advice =
      "; compress --reconstruct, which trains one layer at a time, needs the least";
  MemoryCase smaller = run;
  if (run.adapter_parameters == 0 && run.small_adapter_parameters > 0) {
    smaller.adapter_parameters = run.small_adapter_parameters;
    const int64_t bytes = memory_need(smaller).fixed;
    if (bytes <= planned) {
      advice = fmt::format("; with --lora {} it needs {}", kSmallRank, gigabytes(bytes));
    }
  }
  smaller = run;
  smaller.together = std::min<int64_t>(256, run.together);
  if (const int64_t bytes = memory_need(smaller).fixed; bytes <= planned) {
    advice = fmt::format("; with --cutoff 256 --batch 1 it needs {}", gigabytes(bytes));
  }
  return fail("{}: training needs {} of memory, found {} that may be used{}", model,
              gigabytes(need.fixed), gigabytes(planned), advice);
}

}  // namespace neuronmm::finetune
