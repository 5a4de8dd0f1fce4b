// Compares the speed of an evaluation with that of a plain prefill of the same lengths. The prefill
// runs every request (or chunk of a text) alone and whole, and computes the logits of its last
// token, as `neuronmm bench` times a prompt. A text needs the logits of every token, so that its
// second row compares with a prefill that computes all logits, too. Both run in turns, so that the
// noise of a shared machine affects both.
//   build/release/bench/bench_evaluation MODEL_DIR DATA_DIR [ITEMS_PER_TASK [TASKS [TURNS]]]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include <fmt/core.h>

#include "cpu/backend.h"
#include "eval/evaluation.h"
#include "eval/latency_report.h"
#include "timing.h"

namespace neuronmm {
namespace {

using Logits = model::Transformer::Logits;
using Sequences = std::vector<std::vector<text::TokenId>>;

struct Options {
  std::string model_dir, data_dir;
  int64_t items = 32;
  std::string tasks = "wikitext2,openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge";
  int turns = 3;
};

// The tokens that an evaluation reads, the tokens that it computes, and its time.
struct Evaluated {
  int64_t tokens = 0, computed_tokens = 0;
  double seconds = 0.0;
};

// Prefills that need all logits run in pieces of this length, because the logits of 2048 tokens may
// take 1 GB.
constexpr size_t kPieceTokens = 512;

double prefill_seconds(const model::Transformer& transformer, const Sequences& sequences,
                       Logits logits) {
  const auto cache = transformer.make_cache(transformer.config().max_position_embeddings);
  return bench::seconds_of([&] {
    for (const std::span<const text::TokenId> sequence : sequences) {
      cache->set_length(0);
      const size_t piece = logits == Logits::kAll ? kPieceTokens : sequence.size();
      for (size_t first = 0; first < sequence.size(); first += piece) {
        const size_t count = std::min(piece, sequence.size() - first);
        (void)transformer.forward(sequence.subspan(first, count), *cache, logits);
      }
    }
  });
}

void print_row(std::string_view name, const Evaluated& evaluated, size_t sequences,
               const std::vector<double>& evaluation, const std::vector<double>& prefill) {
  const auto tokens = static_cast<double>(evaluated.tokens);
  const auto computed = static_cast<double>(evaluated.computed_tokens);
  const double prefill_speed = tokens / eval::percentile(prefill, 50);
  const double speed = tokens / eval::percentile(evaluation, 50);
  const double computed_speed = computed / eval::percentile(evaluation, 50);
  fmt::print("{:14} {:>8.1f} {:>8.2f} {:>10.1f} {:>10.1f} {:>10.1f} {:>9.2f} {:>9.2f}\n", name,
             tokens / static_cast<double>(sequences), tokens / computed, prefill_speed, speed,
             computed_speed, speed / prefill_speed, computed_speed / prefill_speed);
  std::fflush(stdout);
}

// Times `evaluate` and the prefill of the same sequences in turns.
template <typename Evaluate>
Status measure(const model::Transformer& transformer, const eval::Task& task,
               const Sequences& sequences, int turns, const Evaluate& evaluate) {
  std::vector<double> evaluation, prefill, all_logits;
  Evaluated evaluated;
  for (int turn = 0; turn < turns; ++turn) {
    NMM_ASSIGN(evaluated, evaluate());
    evaluation.push_back(evaluated.seconds);
    prefill.push_back(prefill_seconds(transformer, sequences, Logits::kLast));
    if (!task.is_text()) continue;
    all_logits.push_back(prefill_seconds(transformer, sequences, Logits::kAll));
  }
  print_row(task.name, evaluated, sequences.size(), evaluation, prefill);
  if (task.is_text()) {
    print_row("  all logits", evaluated, sequences.size(), evaluation, all_logits);
  }
  return {};
}

Status measure_choices(const model::Transformer& transformer, const text::Tokenizer& tokenizer,
                       const eval::LoadedTask& data, int turns) {
  const eval::EncodeRules rules = {true, transformer.config().max_position_embeddings};
  NMM_ASSIGN(const auto items,
             eval::encode_items(tokenizer, data.items, rules, data.file.string()));
  Sequences requests;
  for (const eval::EncodedItem& item : items) {
    for (const eval::EncodedRequest& request : item.requests) requests.push_back(request.inputs);
  }
  return measure(transformer, *data.task, requests, turns, [&]() -> Result<Evaluated> {
    Progress silent;
    NMM_ASSIGN(const auto result, eval::log_likelihoods(transformer, items, silent));
    return Evaluated{result.tokens, result.computed_tokens, result.seconds};
  });
}

// Times one chunk, because the speed does not depend on the number of chunks.
Status measure_text(const model::Transformer& transformer, const text::Tokenizer& tokenizer,
                    const eval::LoadedTask& data, int turns) {
  const int64_t context = eval::default_context(transformer.config());
  NMM_ASSIGN(std::vector<text::TokenId> tokens, tokenizer.encode(data.text));
  if (std::ssize(tokens) < context) return fail("{}: too short", data.file.string());
  tokens.resize(static_cast<size_t>(context));
  const Sequences chunk = {{tokens.begin(), tokens.end() - 1}};
  return measure(transformer, *data.task, chunk, turns, [&]() -> Result<Evaluated> {
    Progress silent;
    NMM_ASSIGN(const auto report, eval::perplexity(transformer, tokens, context, silent));
    return Evaluated{report.scored_tokens, report.scored_tokens, report.seconds};
  });
}

// Runs a few tokens, because the first tokens after loading are slower while caches are cold.
void warm_up(const model::Transformer& transformer) {
  const auto tokens = std::min<int64_t>(128, transformer.config().max_position_embeddings);
  prefill_seconds(transformer, {std::vector<text::TokenId>(tokens)}, Logits::kAll);
}

Status run(const Options& options) {
  const auto backend = cpu::make_backend();
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(options.model_dir));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(options.model_dir, *backend));
  NMM_ASSIGN(const auto tasks, eval::parse_tasks(options.tasks));
  NMM_ASSIGN(const auto data, eval::read_tasks(tasks, {options.data_dir, options.items, true}));
  warm_up(transformer);
  fmt::print("{}, {} items per task, median of {} turns; tokens/s\n", backend->name(),
             options.items, options.turns);
  fmt::print("{:14} {:>8} {:>8} {:>10} {:>10} {:>10} {:>9} {:>9}\n", "", "length", "sharing",
             "prefill", "requests", "computed", "requests/", "computed/");
  for (const eval::LoadedTask& task : data) {
    NMM_TRY(task.task->is_text() ? measure_text(transformer, tokenizer, task, options.turns)
                                 : measure_choices(transformer, tokenizer, task, options.turns));
  }
  return {};
}

int usage() {
  fmt::print(stderr,
             "usage: bench_evaluation MODEL_DIR DATA_DIR [ITEMS_PER_TASK [TASKS [TURNS]]]\n");
  return 2;
}

}  // namespace
}  // namespace neuronmm

int main(int argc, char** argv) {
  if (argc < 3 || argc > 6) return neuronmm::usage();
  neuronmm::Options options = {argv[1], argv[2]};
  if (argc > 3) options.items = std::atoll(argv[3]);
  if (argc > 4) options.tasks = argv[4];
  if (argc > 5) options.turns = std::atoi(argv[5]);
  if (options.items < 1 || options.turns < 1) return neuronmm::usage();
  const neuronmm::Status status = neuronmm::run(options);
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_evaluation: {}\n", status.error().message);
  return 1;
}
