// Measures whole models: prefill and decode in tokens per second. Compressed models are compared
// with the speed-up that the FLOPs and bytes they save allow, and with llama.cpp on GGUF files of
// the same shape. All models run in turns, so that the noise of a shared machine affects all of
// them. The limits of the machine are measured again in each turn. The GB/s of a GGUF file count
// all its bytes.
//
// Decode starts at an empty context, as in llama-bench, so that it reads mostly weights.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "eval/latency_report.h"
#include "llama_bench.h"
#include "machine_limits.h"
#include "model/transformer.h"
#include "timing.h"

namespace neuronmm::bench {
namespace {

using model::Transformer;
using text::TokenId;

struct Options {
  std::string model_dir, llama_bench, json;
  std::vector<std::string> against, gguf;
  int64_t prompt_tokens = 512, new_tokens = 32;
  int runs = 3;
  bool bf16_activations = false;
};

const cpu::Kernels& kernels_of(const Options& options) {
  cpu::KernelChoice choice;
  if (options.bf16_activations) choice.most_dot_products = cpu::DotProducts::kInt8AndBf16;
  return cpu::best_kernels(choice);
}

// The minimal work per token.
struct Work {
  double prefill_flops = 0.0;  // of the whole prompt
  double decode_bytes = 0.0;   // of one step in the middle of the decode
  bool int8 = false;           // the weights are int8
};

struct Contender {
  std::string name;
  std::optional<Transformer> transformer;  // empty: a GGUF file for llama.cpp
  Work work;
  std::vector<double> prefill, decode;              // tokens per second, one per turn
  std::vector<double> prefill_share, decode_share;  // the share of that turn's limits
};

double median(const std::vector<double>& values) { return eval::percentile(values, 50); }

// Returns the work of a model. Matrices are multiplied once per token, and the LM head only for the
// last token of the prompt. Of all experts, a token reads and multiplies the active ones. Packed
// bf16 weights have 2 bytes, and other floats 4.
Work work_of(const Transformer& transformer, const Options& options) {
  const io::ModelConfig& config = transformer.config();
  const std::string embedding =
      model::tensor_prefix(transformer.checkpoint()) + "embed_tokens.weight";
  const auto tokens = static_cast<double>(options.prompt_tokens);
  Work work;
  for (const auto& [name, tensor] : transformer.checkpoint().tensors()) {
    const bool is_head =
        name == "lm_head.weight" || (name == embedding && config.tie_word_embeddings);
    if (tensor.shape.size() != 2 || (name == embedding && !is_head)) continue;
    const bool is_expert = config.experts && name.find(".experts.") != std::string::npos;
    const double share = is_expert ? static_cast<double>(config.experts->active) /
                                         static_cast<double>(config.experts->count)
                                   : 1.0;
    const double size = share * static_cast<double>(tensor.size());
    work.prefill_flops += 2 * size * (is_head ? 1 : tokens);
    work.int8 |= tensor.dtype == DType::kI8;
    work.decode_bytes += tensor.dtype == DType::kF16 || tensor.dtype == DType::kF64
                             ? 4 * size
                             : share * static_cast<double>(tensor.size_bytes());
  }
  const auto layers = static_cast<double>(config.num_hidden_layers);
  const auto width = static_cast<double>(config.num_attention_heads * config.head_dim);
  const auto kv_width = static_cast<double>(config.num_key_value_heads * config.head_dim);
  work.prefill_flops +=
      2 * layers * width * tokens * (tokens + 1);  // two products, half of them masked
  work.decode_bytes += 2 * 2 * layers * kv_width * static_cast<double>(options.new_tokens) / 2;
  return work;
}

TokensPerSecond time_model(const Transformer& transformer, const Options& options) {
  std::mt19937_64 random(1);
  std::vector<TokenId> tokens(
      static_cast<size_t>(std::max(options.prompt_tokens, options.new_tokens)));
  for (TokenId& id : tokens) {
    id = static_cast<TokenId>(random() % static_cast<uint64_t>(transformer.config().vocab_size));
  }
  const std::span<const TokenId> all(tokens);
  const auto forward = [&](std::span<const TokenId> part, ops::KvCache& cache) {
    (void)transformer.forward(part, cache, Transformer::Logits::kLast);
  };
  const auto prompt_cache = transformer.make_cache(options.prompt_tokens);
  const double prefill = seconds_of(
      [&] { forward(all.first(static_cast<size_t>(options.prompt_tokens)), *prompt_cache); });
  const auto cache = transformer.make_cache(options.new_tokens);
  const double decode = seconds_of([&] {
    for (size_t i = 0; i < static_cast<size_t>(options.new_tokens); ++i) {
      forward(all.subspan(i, 1), *cache);
    }
  });
  return {static_cast<double>(options.prompt_tokens) / prefill,
          static_cast<double>(options.new_tokens) / decode};
}

// Adds one turn's speed and its share of the limits. A GGUF file gets no share of prefill, because
// llama.cpp chooses its own instructions.
void add_turn(Contender& contender, const TokensPerSecond& speed, const MachineLimits& limits,
              const Options& options) {
  contender.prefill.push_back(speed.prefill);
  contender.decode.push_back(speed.decode);
  contender.decode_share.push_back(contender.work.decode_bytes * speed.decode / 1e9 /
                                   limits.read_gb_s);
  if (!contender.transformer) return;
  const bool bf16 = kernels_of(options).dot_products == cpu::DotProducts::kInt8AndBf16;
  const double peak = contender.work.int8 ? limits.int8_gops
                      : bf16              ? limits.bf16_gflops
                                          : limits.fma_gflops;
  const double flops_per_token =
      contender.work.prefill_flops / static_cast<double>(options.prompt_tokens);
  if (peak > 0) contender.prefill_share.push_back(flops_per_token * speed.prefill / 1e9 / peak);
}

// Runs one turn of all contenders to warm up, and then `runs` turns that count.
Status measure(std::vector<Contender>& contenders, const Options& options) {
  const LlamaBench peer = {options.llama_bench, num_threads(), options.prompt_tokens,
                           options.new_tokens};
  for (int turn = 0; turn <= options.runs; ++turn) {
    const MachineLimits limits = measure_machine_limits();
    for (Contender& contender : contenders) {
      if (turn == 0 && !contender.transformer) continue;  // llama-bench warms up by itself
      TokensPerSecond speed;
      if (contender.transformer) {
        speed = time_model(*contender.transformer, options);
      } else {
        NMM_ASSIGN(speed, peer.run(contender.name));
      }
      if (turn > 0) add_turn(contender, speed, limits, options);
    }
  }
  return {};
}

void print_speed(const std::vector<double>& tokens_per_s, double dense, double ideal) {
  fmt::print("  {:9.2f} ({:7.2f} to {:7.2f})", median(tokens_per_s),
             eval::percentile(tokens_per_s, 0), eval::percentile(tokens_per_s, 100));
  fmt::print(" {:6.2f}x", median(tokens_per_s) / dense);
  if (ideal > 0) {
    fmt::print(" of {:5.2f}x, gain {:3.0f} %", ideal, 100 * median(tokens_per_s) / dense / ideal);
  } else {
    fmt::print("{:20}", "");
  }
}

void print_table(const std::vector<Contender>& contenders, const Options& options,
                 const std::string& device) {
  const Contender& first = contenders[0];
  fmt::print(
      "{}, {} turns; tokens/s: median (smallest to largest), times the first model's,\n"
      "of the ideal: what removed FLOPs (prefill) and bytes (decode) allow\n",
      device, options.runs);
  fmt::print("{:28} {:^57}{:^57}\n", "", fmt::format("prefill of {}", options.prompt_tokens),
             fmt::format("decode of {}", options.new_tokens));
  for (const Contender& c : contenders) {
    const bool compared = c.transformer && &c != &first;
    fmt::print("{:28}", c.name.size() > 28 ? c.name.substr(c.name.size() - 28) : c.name);
    print_speed(c.prefill, median(first.prefill),
                compared ? first.work.prefill_flops / c.work.prefill_flops : 0);
    print_speed(c.decode, median(first.decode),
                compared ? first.work.decode_bytes / c.work.decode_bytes : 0);
    fmt::print("\n");
  }
}

void print_shares(const std::vector<Contender>& contenders, const Options& options) {
  fmt::print(
      "\nof the machine's limits (multiply-adds of its kind on registers, streaming read), as "
      "measured in the same turn\n{:28}{:>18}{:>8}{:>14}{:>8}\n",
      "", "prefill GFLOP/s", "share", "decode GB/s", "share");
  for (const Contender& c : contenders) {
    fmt::print("{:28}", c.name.size() > 28 ? c.name.substr(c.name.size() - 28) : c.name);
    if (c.prefill_share.empty()) {
      fmt::print("{:>18}{:>8}", "-", "-");
    } else {
      fmt::print("{:>18.1f}{:>7.0f}%",
                 c.work.prefill_flops / static_cast<double>(options.prompt_tokens) *
                     median(c.prefill) / 1e9,
                 100 * median(c.prefill_share));
    }
    fmt::print("{:>14.1f}{:>7.0f}%\n", c.work.decode_bytes * median(c.decode) / 1e9,
               100 * median(c.decode_share));
  }
}

nlohmann::ordered_json to_json(const std::vector<Contender>& contenders, const Options& options,
                               const std::string& device) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Contender& c : contenders) {
    rows.push_back({{"name", c.name},
                    {"program", c.transformer ? "neuronmm" : "llama.cpp"},
                    {"prefill_tokens_per_s", c.prefill},
                    {"decode_tokens_per_s", c.decode},
                    {"decode_share_of_read", c.decode_share}});
    if (!c.transformer) continue;
    rows.back()["prefill_share_of_peak"] = c.prefill_share;
    rows.back()["prefill_flops"] = c.work.prefill_flops;
    rows.back()["decode_bytes_per_token"] = c.work.decode_bytes;
  }
  return {{"device", device},
          {"prompt_tokens", options.prompt_tokens},
          {"new_tokens", options.new_tokens},
          {"contenders", rows}};
}

// Measures how long the system takes to provide this much memory, which may be longer than the rest
// of loading.
double seconds_of_new_memory(int64_t bytes) {
  return seconds_of([&] {
    const cpu::Buffer<uint32_t> memory(bytes / 4, cpu::Pages::kHuge);
    parallel_ranges(bytes / 4, [&](int64_t first, int64_t last) {
      std::fill(memory.data() + first, memory.data() + last, 1u);
    });
  });
}

// Reads a byte of every page, so that the files are in the system's cache.
void warm_file_cache(const io::Checkpoint& checkpoint) {
  constexpr int64_t kPage = 4096;
  volatile unsigned sum = 0;  // volatile, so that the compiler does not remove the reads
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    for (int64_t i = 0; i < tensor.size_bytes(); i += kPage) {
      sum = sum + static_cast<unsigned>(tensor.data[i]);
    }
  }
}

// Loads a model from a warm file cache, into memory that was returned to the system just before.
Result<Contender> load(const std::string& folder, const ops::Backend& backend,
                       const Options& options) {
  Contender contender;
  contender.name = folder;
  NMM_ASSIGN(const auto checkpoint, io::Checkpoint::open(folder));
  warm_file_cache(checkpoint);
  const double memory = seconds_of_new_memory(checkpoint.size_bytes());
  const auto start = std::chrono::steady_clock::now();
  NMM_ASSIGN(contender.transformer, Transformer::load(folder, backend));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  contender.work = work_of(*contender.transformer, options);
  fmt::print("{}: {:.2f} GB; as much new memory took {:.2f} s, then loading {:.2f} s\n", folder,
             static_cast<double>(checkpoint.size_bytes()) / 1e9, memory, seconds);
  return contender;
}

Status run(const Options& options) {
  const auto backend = cpu::make_backend(kernels_of(options));
  std::vector<Contender> contenders;
  std::vector<std::string> folders = {options.model_dir};
  folders.insert(folders.end(), options.against.begin(), options.against.end());
  for (const std::string& folder : folders) {
    NMM_ASSIGN(auto contender, load(folder, *backend, options));
    contenders.push_back(std::move(contender));
  }
  for (const std::string& gguf : options.gguf) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(gguf, error);
    if (error) return fail("{}: {}", gguf, error.message());
    contenders.emplace_back().name = gguf;
    contenders.back().work.decode_bytes = static_cast<double>(bytes);
  }
  NMM_TRY(measure(contenders, options));
  print_table(contenders, options, backend->name());
  print_shares(contenders, options);
  if (options.json.empty()) return {};
  std::ofstream file(options.json);
  file << to_json(contenders, options, backend->name()).dump(2) << "\n";
  return file.flush() ? Status() : fail("{}: cannot be written", options.json);
}

int main(int argc, char** argv) {
  Options options;
  int threads = num_threads();
  CLI::App app("Compares prefill and decode of whole models with each other and with llama.cpp.");
  app.add_option("MODEL_DIR", options.model_dir,
                 "folder of the dense model that the others are compared with")
      ->required();
  app.add_option("--against", options.against, "folders of compressed models");
  auto* const program = app.add_option("--llama-bench", options.llama_bench,
                                       "path of llama.cpp's program llama-bench");
  app.add_option("--gguf", options.gguf, "GGUF files that llama-bench runs")->needs(program);
  app.add_option("--prompt-tokens", options.prompt_tokens, "tokens of the prompt (default 512)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--new-tokens", options.new_tokens, "tokens to decode (default 32)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--runs", options.runs, "timed turns (default 3)")->check(CLI::Range(1, 1000));
  app.add_option("--threads", threads, "number of threads (default: all cores)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--bf16-activations", options.bf16_activations,
               "round activations to bf16 like `neuronmm bench --activations bf16`");
  app.add_option("--json", options.json, "write the measurements to this JSON file, too");
  CLI11_PARSE(app, argc, argv);
  set_num_threads(threads);
  const Status status = run(options);
  if (!status.ok()) fmt::print(stderr, "bench_model: {}\n", status.error().message);
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace neuronmm::bench

int main(int argc, char** argv) { return neuronmm::bench::main(argc, argv); }
