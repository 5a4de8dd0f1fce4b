// Whole models: prefill and decode in tokens per second, of a dense model, of compressed ones
// beside what the FLOPs and bytes they save allow, and of llama.cpp on GGUF files of the same
// shape. In turns, so that the noise of a shared machine hits all of them.
//
// Decode starts at an empty context, as llama-bench's does, so that weights are what it reads.

#include <chrono>
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
#include "model/transformer.h"

namespace neuronmm::bench {
namespace {

using model::Transformer;
using text::TokenId;

struct Options {
  std::string model_dir, llama_bench, json;
  std::vector<std::string> against, gguf;
  int64_t prompt_tokens = 512, new_tokens = 32;
  int runs = 3;
};

// What a token costs at least.
struct Work {
  double prefill_flops = 0.0;  // of the whole prompt
  double decode_bytes = 0.0;   // of one step at the middle of the decode
};

struct Contender {
  std::string name;
  std::optional<Transformer> transformer;  // else a GGUF for llama.cpp
  Work work;
  std::vector<double> prefill, decode;  // tokens per second, one per turn
};

double median(const std::vector<double>& values) { return eval::percentile(values, 50); }

// Matrices are multiplied once per token, the LM head only for the last token of the prompt. bf16
// stays 2 bytes when packed, other floats become 4.
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
    const auto size = static_cast<double>(tensor.size());
    work.prefill_flops += 2 * size * (is_head ? 1 : tokens);
    work.decode_bytes += tensor.dtype == DType::kF16 || tensor.dtype == DType::kF64
                             ? 4 * size
                             : static_cast<double>(tensor.size_bytes());
  }
  const auto layers = static_cast<double>(config.num_hidden_layers);
  const auto width = static_cast<double>(config.num_attention_heads * config.head_dim);
  const auto kv_width = static_cast<double>(config.num_key_value_heads * config.head_dim);
  work.prefill_flops += 2 * layers * width * tokens * (tokens + 1);  // two products, half masked
  work.decode_bytes += 2 * 2 * layers * kv_width * static_cast<double>(options.new_tokens) / 2;
  return work;
}

double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TokensPerSecond time_ours(const Transformer& transformer, const Options& options) {
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

// One turn of everybody to warm up, then `runs` that count.
Status measure(std::vector<Contender>& contenders, const Options& options) {
  const LlamaBench peer = {options.llama_bench, num_threads(), options.prompt_tokens,
                           options.new_tokens};
  for (int turn = 0; turn <= options.runs; ++turn) {
    for (Contender& contender : contenders) {
      if (turn == 0 && !contender.transformer) continue;  // it warms up by itself
      TokensPerSecond speed;
      if (contender.transformer) {
        speed = time_ours(*contender.transformer, options);
      } else {
        NMM_ASSIGN(speed, peer.run(contender.name));
      }
      if (turn == 0) continue;
      contender.prefill.push_back(speed.prefill);
      contender.decode.push_back(speed.decode);
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
  fmt::print("first model: prefill {:.1f} GFLOP/s, decode {:.1f} GB/s\n",
             first.work.prefill_flops / static_cast<double>(options.prompt_tokens) *
                 median(first.prefill) / 1e9,
             first.work.decode_bytes * median(first.decode) / 1e9);
}

nlohmann::ordered_json to_json(const std::vector<Contender>& contenders, const Options& options,
                               const std::string& device) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Contender& c : contenders) {
    rows.push_back({{"name", c.name},
                    {"program", c.transformer ? "neuronmm" : "llama.cpp"},
                    {"prefill_tokens_per_s", c.prefill},
                    {"decode_tokens_per_s", c.decode}});
    if (!c.transformer) continue;
    rows.back()["prefill_flops"] = c.work.prefill_flops;
    rows.back()["decode_bytes_per_token"] = c.work.decode_bytes;
  }
  return {{"device", device},
          {"prompt_tokens", options.prompt_tokens},
          {"new_tokens", options.new_tokens},
          {"contenders", rows}};
}

Status run(const Options& options) {
  const auto backend = cpu::make_backend();
  std::vector<Contender> contenders;
  std::vector<std::string> folders = {options.model_dir};
  folders.insert(folders.end(), options.against.begin(), options.against.end());
  for (const std::string& folder : folders) {
    Contender& contender = contenders.emplace_back();
    contender.name = folder;
    const auto start = std::chrono::steady_clock::now();
    NMM_ASSIGN(contender.transformer, Transformer::load(folder, *backend));
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    contender.work = work_of(*contender.transformer, options);
    fmt::print("{}: {:.2f} GB loaded in {:.2f} s\n", folder,
               static_cast<double>(contender.transformer->checkpoint().size_bytes()) / 1e9,
               seconds);
  }
  for (const std::string& gguf : options.gguf) contenders.emplace_back().name = gguf;
  NMM_TRY(measure(contenders, options));
  print_table(contenders, options, backend->name());
  if (options.json.empty()) return {};
  std::ofstream file(options.json);
  file << to_json(contenders, options, backend->name()).dump(2) << "\n";
  return file.flush() ? Status() : fail("{}: cannot be written", options.json);
}

int main(int argc, char** argv) {
  Options options;
  int threads = num_threads();
  CLI::App app("Prefill and decode of whole models beside each other and llama.cpp");
  app.add_option("MODEL_DIR", options.model_dir, "the dense model, which others are compared with")
      ->required();
  app.add_option("--against", options.against, "compressed models");
  auto* const program = app.add_option("--llama-bench", options.llama_bench, "llama.cpp's program");
  app.add_option("--gguf", options.gguf, "models for it")->needs(program);
  app.add_option("--prompt-tokens", options.prompt_tokens)->check(CLI::Range(1, 1 << 20));
  app.add_option("--new-tokens", options.new_tokens)->check(CLI::Range(1, 1 << 20));
  app.add_option("--runs", options.runs, "timed turns")->check(CLI::Range(1, 1000));
  app.add_option("--threads", threads)->check(CLI::Range(1, 1024));
  bool bf16_activations = false;
  app.add_flag("--bf16-activations", bf16_activations, "as `neuronmm bench --activations bf16`");
  app.add_option("--json", options.json, "also write the measurements to this file");
  CLI11_PARSE(app, argc, argv);
  set_num_threads(threads);
  if (bf16_activations) cpu::allow_dot_products(cpu::DotProducts::kInt8AndBf16);
  const Status status = run(options);
  if (!status.ok()) fmt::print(stderr, "bench_model: {}\n", status.error().message);
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace neuronmm::bench

int main(int argc, char** argv) { return neuronmm::bench::main(argc, argv); }
