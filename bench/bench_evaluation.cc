// The speed of an evaluation beside that of a plain prefill of the same lengths: every request
// alone, whole, with the logits of its last token, as `neuronmm bench` times a prompt.
//   build/release/bench/bench_evaluation MODEL_DIR DATA_DIR [ITEMS_PER_TASK]

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/core.h>

#include "cpu/backend.h"
#include "eval/evaluation.h"

namespace neuronmm {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double prefill_seconds(const model::Transformer& transformer,
                       const std::vector<eval::EncodedItem>& items) {
  const auto cache = transformer.make_cache(transformer.config().max_position_embeddings);
  const auto start = std::chrono::steady_clock::now();
  for (const eval::EncodedItem& item : items) {
    for (const eval::EncodedRequest& request : item.requests) {
      cache->set_length(0);
      transformer.forward(request.inputs, *cache, model::Transformer::Logits::kLast);
    }
  }
  return seconds_since(start);
}

Status measure(const model::Transformer& transformer, const text::Tokenizer& tokenizer,
               const eval::TaskData& data) {
  NMM_ASSIGN(
      const auto items,
      eval::encode_items(tokenizer, data.items,
                         {true, transformer.config().max_position_embeddings}, data.file.string()));
  Progress silent;
  NMM_ASSIGN(const auto result, eval::log_likelihoods(transformer, items, silent));
  int64_t requests = 0;
  for (const eval::EncodedItem& item : items) requests += std::ssize(item.requests);
  const auto tokens = static_cast<double>(result.tokens);
  const auto computed = static_cast<double>(result.computed_tokens);
  const double prefill = tokens / prefill_seconds(transformer, items);
  fmt::print("{:14} {:>8.1f} {:>8.2f} {:>10.1f} {:>10.1f} {:>10.1f} {:>9.2f} {:>9.2f}\n",
             data.task->name, tokens / static_cast<double>(requests), tokens / computed, prefill,
             tokens / result.seconds, computed / result.seconds, tokens / result.seconds / prefill,
             computed / result.seconds / prefill);
  std::fflush(stdout);
  return {};
}

Status run(const std::string& model_dir, const std::string& data_dir, int64_t limit) {
  const auto backend = cpu::make_backend();
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(model_dir));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(model_dir, *backend));
  NMM_ASSIGN(const auto tasks,
             eval::parse_tasks("openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge"));
  NMM_ASSIGN(const auto data, eval::read_tasks(tasks, {data_dir, limit, true}));
  fmt::print("{}, {} items per task; tokens/s\n", backend->name(), limit);
  fmt::print("{:14} {:>8} {:>8} {:>10} {:>10} {:>10} {:>9} {:>9}\n", "", "length", "sharing",
             "prefill", "requests", "computed", "requests/", "computed/");
  for (const eval::TaskData& task : data) NMM_TRY(measure(transformer, tokenizer, task));
  return {};
}

}  // namespace
}  // namespace neuronmm

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    fmt::print(stderr, "usage: bench_evaluation MODEL_DIR DATA_DIR [ITEMS_PER_TASK]\n");
    return 2;
  }
  const int64_t limit = argc == 4 ? std::atoll(argv[3]) : 32;
  const neuronmm::Status status = neuronmm::run(argv[1], argv[2], limit);
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_evaluation: {}\n", status.error().message);
  return 1;
}
