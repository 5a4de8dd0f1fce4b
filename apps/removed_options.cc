#include "removed_options.h"

#include <fmt/format.h>

namespace neuronmm::apps {
namespace {

constexpr std::string_view kStatistics =
    "--statistics DIR, which reads what the folder holds and with --calibration TEXT adds what it "
    "lacks";

constexpr std::string_view kBits =
    "--bits 8, 6 or 4; without it weights keep the format that they have";

// Programs that measure a running server.
constexpr std::string_view kLoadGenerator =
    "guidellm or `vllm bench serve`, which bench/bench_serve.py runs";

constexpr RemovedOption kRemovedOptions[] = {
    {"bench", "--url", "", kLoadGenerator},
    {"bench", "--tokenizer", "", kLoadGenerator},
    {"bench", "--num-prompts", "", kLoadGenerator},
    {"bench", "--prompts", "", kLoadGenerator},
    {"bench", "--range-ratio", "", kLoadGenerator},
    {"bench", "--prefix-tokens", "", kLoadGenerator},
    {"bench", "--seed", "", kLoadGenerator},
    {"bench", "--concurrency", "", kLoadGenerator},
    {"bench", "--request-rate", "", kLoadGenerator},
    {"bench", "--burstiness", "", kLoadGenerator},
    {"bench", "--warmup", "", kLoadGenerator},
    {"bench", "--timeout", "", kLoadGenerator},
    {"bench", "--endpoint", "", kLoadGenerator},
    {"bench", "--model", "", kLoadGenerator},
    {"bench", "--temperature", "", kLoadGenerator},
    {"bench", "--ignore-eos", "", kLoadGenerator},
    {"bench", "--no-ignore-eos", "", kLoadGenerator},
    {"bench", "--api-key", "", kLoadGenerator},
    {"bench", "--goodput", "", kLoadGenerator},
    {"compress", "--error-aware", "", "--form auto, which loses less"},
    {"compress", "--method", "error-aware",
     "--method two-sided, or --method whitened if --form uv is needed"},
    {"compress", "--align", "", "--block N, of which sizes are the nearest multiples"},
    {"compress", "--only", "",
     "--allocate measured, which keeps those matrices dense that matter most"},
    {"compress", "--allocate", "sensitivity", "--form uv --allocate measured"},
    {"compress", "--gram", "", "--statistics DIR"},
    {"compress", "--save-gram", "", kStatistics},
    {"compress", "--save-statistics", "", kStatistics},
    {"compress", "--seed", "", "--self-generated, whose text always begins with the same seed"},
    {"compress", "--weights", "", kBits},
    {"emit", "--dialect", "", "--sdk RELEASE: 2.28 for neuronxcc, 2.33 for nki"},
    {"finetune", "--which", "",
     "the default, which trains all weights of the layers, or --lora RANK"},
    {"finetune", "--lr", "", "--learning-rate X; without it a trial finds the rate"},
    {"finetune", "--epochs", "", "--tokens N"},
    {"finetune", "--steps", "", "--tokens N"},
    {"finetune", "--rank", "", "--lora RANK"},
    {"finetune", "--alpha", "", "--lora RANK, whose adapters have an alpha of 2 * RANK"},
    {"finetune", "--warmup", "",
     "the default, which raises the rate over the first tenth of the steps"},
    {"finetune", "--validate-every", "", "the default, ten measurements in a run"},
    {"finetune", "--patience", "", "--tokens N; the best state on the held-out text is kept"},
    {"finetune", "--refine-blocks", "", "compress --reconstruct"},
    {"finetune", "--refine-tokens", "", "compress --reconstruct"},
    {"finetune", "--refine-lr", "", "compress --reconstruct"},
    {"finetune", "--device", "", "examples/gpu_recovery.py to train on a GPU"},
    {"finetune", "--micro-batch", "", "--batch N alone; steps of any size take the same memory"},
    {"finetune", "--products", "",
     "the default, bf16 where the CPU multiplies it faster than fp32"},
    {"finetune", "--weights", "", kBits},
    {"quantize", "--save-statistics", "", kStatistics},
    {"serve", "--model-name", "", "--served-model-name NAME, which may be given several times"},
};

std::string name_of(const RemovedOption& removed) {
  return removed.value.empty() ? std::string(removed.option)
                               : fmt::format("{} {}", removed.option, removed.value);
}

// Returns whether the argument at `index` gives the removed option, with the removed value if there
// is one.
bool gives(const RemovedOption& removed, const std::vector<std::string>& arguments, size_t index) {
  const std::string_view argument = arguments[index];
  if (!argument.starts_with(removed.option)) return false;
  const std::string_view rest = argument.substr(removed.option.size());
  if (!rest.empty() && !rest.starts_with('=')) return false;
  if (removed.value.empty()) return true;
  if (!rest.empty()) return rest.substr(1) == removed.value;
  return index + 1 < arguments.size() && arguments[index + 1] == removed.value;
}

}  // namespace

std::span<const RemovedOption> removed_options() { return kRemovedOptions; }

std::optional<std::string> removed_option_message(std::string_view command,
                                                  const std::vector<std::string>& arguments) {
  for (size_t index = 0; index < arguments.size(); ++index) {
    for (const RemovedOption& removed : kRemovedOptions) {
      if (removed.command != command || !gives(removed, arguments, index)) continue;
      return fmt::format("{} was removed; use {}", name_of(removed), removed.instead);
    }
  }
  return std::nullopt;
}

}  // namespace neuronmm::apps
