#include "model/bench_url.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "base/interrupt.h"
#include "base/printable.h"
#include "flags.h"
#include "io/text_file.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

const char* const kGroup = "A server under load";

const CLI::Range kCount(int64_t{1}, int64_t{1} << 30);
const CLI::Range kCountOrNone(int64_t{0}, int64_t{1} << 30);

CLI::Validator positive_number() {
  const auto check = [](const std::string& text) {
    double value = 0.0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= 1e-3 && value <= 1e9;
    return good ? std::string()
                : fmt::format("expected a number from 0.001 to 1e9, found {:?}", text);
  };
  return {check, "NUMBER"};
}

CLI::Validator objective() {
  const auto check = [](const std::string& text) {
    load::ServiceObjectives ignored;
    const Status added = load::add_objective(text, ignored);
    return added.ok() ? std::string() : added.error().message;
  };
  return {check, "NAME:MS"};
}

void add_prompt_flags(CLI::App* command, ServerBenchFlags& flags,
                      const std::function<void(CLI::Option*)>& add) {
  add(command
          ->add_option("--tokenizer", flags.tokenizer,
                       "the folder of the model's tokenizer.json, which makes random prompts and "
                       "counts tokens where the server does not")
          ->type_name("DIR"));
  add(command->add_option("--num-prompts", flags.prompt.count, "requests, besides the warm-up")
          ->check(kCount)
          ->capture_default_str());
  auto* file =
      command
          ->add_option("--prompts", flags.prompts,
                       "in place of random prompts: a line each, or JSON lines with \"prompt\" or "
                       "\"messages\", and perhaps \"max_tokens\"; - reads standard input")
          ->type_name("FILE");
  add(file);
  add(command
          ->add_option("--range-ratio", flags.prompt.spread,
                       "random lengths: from n * (1 - R) to n * (1 + R)")
          ->check(real_range(0.0, 0.999))
          ->type_name("R")
          ->excludes(file));
  add(command
          ->add_option("--prefix-tokens", flags.prompt.prefix_tokens,
                       "random tokens with which all prompts begin, besides their own")
          ->check(kCountOrNone)
          ->type_name("N"));
  add(command->add_option("--seed", flags.seed, "of prompts, arrivals, and the server's draws")
          ->check(whole_number())
          ->capture_default_str());
}

void add_arrival_flags(CLI::App* command, ServerBenchFlags& flags,
                       const std::function<void(CLI::Option*)>& add) {
  add(command
          ->add_option("--concurrency", flags.load.concurrency,
                       "requests at once, at most; without it there is no limit")
          ->check(kCount)
          ->type_name("N"));
  auto* rate = command
                   ->add_option("--request-rate", flags.load.arrivals.rate,
                                "requests per second; without it all come at once")
                   ->check(positive_number())
                   ->type_name("RATE");
  add(rate);
  add(command
          ->add_option("--burstiness", flags.load.arrivals.burstiness,
                       "of the arrivals: 1 a Poisson process, less in bursts, more evener")
          ->check(positive_number())
          ->needs(rate)
          ->capture_default_str());
  add(command->add_option("--warmup", flags.warmup, "requests before, which are not counted")
          ->check(kCountOrNone)
          ->capture_default_str());
  add(command->add_option("--timeout", flags.timeout_s, "seconds that a request may take")
          ->check(positive_number())
          ->capture_default_str());
}

void add_request_flags(CLI::App* command, ServerBenchFlags& flags,
                       const std::function<void(CLI::Option*)>& add) {
  add(command
          ->add_option("--endpoint", flags.endpoint,
                       "completions (/v1/completions) or chat (/v1/chat/completions)")
          ->check(CLI::IsMember({"completions", "chat"}))
          ->capture_default_str());
  add(command
          ->add_option("--model", flags.load.request.model,
                       "the model's name there; without it the first of /v1/models")
          ->type_name("NAME"));
  add(command
          ->add_option("--temperature", flags.load.request.temperature,
                       "of the requests; 0, the default: the likeliest token")
          ->check(real_range(0.0, 100.0))
          ->type_name("T"));
  add(command->add_flag("--ignore-eos,!--no-ignore-eos", flags.load.request.ignore_eos,
                        "answers have the asked length (the default), or end where they end"));
  add(command
          ->add_option("--api-key", flags.api_key,
                       "the server's key; without it OPENAI_API_KEY of the environment")
          ->type_name("KEY"));
  add(command
          ->add_option_function<std::vector<std::string>>(
              "--goodput",
              [&flags](const std::vector<std::string>& texts) {
                for (const std::string& text : texts)
                  (void)load::add_objective(text, flags.objectives);
              },
              "count the requests that keep to ttft:MS, tpot:MS or e2el:MS; may be repeated")
          ->check(objective())
          ->allow_extra_args(false)
          ->type_name("NAME:MS"));
}

// Every connection is a file; the usual limit is 1024.
void allow_many_connections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<std::string> api_key(const ServerBenchFlags& flags) {
  const char* const given = std::getenv("OPENAI_API_KEY");
  const bool from_flag = !flags.api_key.empty();
  std::string key = from_flag ? flags.api_key : given != nullptr ? given : "";
  if (std::ranges::any_of(key, [](char c) { return c <= ' ' || c > '~'; }))
    return fail("{}: expected printable characters", from_flag ? "--api-key" : "OPENAI_API_KEY");
  return key;
}

Result<std::vector<load::LoadPrompt>> make_prompts(const ServerBenchFlags& flags,
                                                   const text::Tokenizer& tokenizer) {
  load::PromptSettings settings = flags.prompt;
  settings.count += flags.warmup;
  settings.seed = flags.seed;
  if (flags.prompts.empty()) return load::random_prompts(tokenizer, settings);
  NMM_ASSIGN(const std::string text, io::read_user_text(flags.prompts));
  return load::file_prompts(text, flags.prompts, tokenizer, settings);
}

// One after the other, so that each is served as a first one. A server that answers none of them
// will not answer the others.
Status warm_up(load::LoadSettings settings, std::span<const load::LoadPrompt> prompts,
               const text::Tokenizer& tokenizer) {
  if (prompts.empty()) return {};
  settings.concurrency = 1;
  settings.arrivals = {};
  Progress silent;
  NMM_ASSIGN(const auto measured, load::measure_load(settings, prompts, tokenizer, silent));
  if (measured.interrupted) return interrupted_error("nothing was measured yet");
  if (!measured.completed.empty()) return {};
  const auto& [kind, error] = *measured.errors.begin();
  return fail("{}: warm-up: {}: {}", settings.url.text(), kind, error.first_message);
}

void print_row(const ReportWriter& writer, const char* name, const load::Summary& summary) {
  writer.print("{:8} {:10.2f} {:10.2f} {:10.2f} {:10.2f} {:10.2f}\n", name, summary.mean,
               summary.median, summary.deviation, summary.p90, summary.p99);
}

void print_report(const ReportWriter& writer, const load::LoadReport& report) {
  writer.print("{} requests answered in {:.2f} s, {} failed", report.completed, report.duration,
               report.failed);
  if (report.unfinished > 0) writer.print(", {} unfinished", report.unfinished);
  writer.print("; at most {} at once\n", report.peak_concurrency);
  for (const auto& [kind, error] : report.errors)
    writer.print("  {} x {}: {}\n", error.count, kind, printable(error.first_message));
  if (report.completed == 0) return;
  writer.print("throughput {:>12.2f} requests/s\n", report.request_throughput);
  writer.print("           {:>12.2f} output tokens/s ({} tokens)\n", report.output_throughput,
               report.output_tokens);
  writer.print("           {:>12.2f} tokens/s with the prompts' ({} tokens)\n",
               report.total_throughput, report.prompt_tokens);
  if (report.goodput) {
    writer.print("goodput    {:>12.2f} requests/s with {}\n", *report.goodput,
                 report.objectives.text());
  }
  writer.print("\n{:8} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "ms", "mean", "median", "std", "p90",
               "p99");
  print_row(writer, "TTFT", report.ttft);
  print_row(writer, "TPOT", report.tpot);
  print_row(writer, "ITL", report.itl);
  print_row(writer, "E2EL", report.e2el);
}

// What was asked, before what came of it.
Json json_of(const ServerBenchFlags& flags, const load::LoadReport& report,
             const load::LoadMeasurement& measured) {
  const load::LoadSettings& load = flags.load;
  Json json = {{"url", load.url.text()},
               {"model", load.request.model},
               {"endpoint", flags.endpoint},
               {"num_prompts", flags.prompt.count},
               {"prompt_tokens", flags.prompt.prompt_tokens},
               {"new_tokens", flags.prompt.new_tokens},
               {"range_ratio", flags.prompt.spread},
               {"prefix_tokens", flags.prompt.prefix_tokens},
               {"request_rate", load.arrivals.rate ? Json(*load.arrivals.rate) : Json()},
               {"burstiness", load.arrivals.burstiness},
               {"concurrency", load.concurrency ? Json(*load.concurrency) : Json()},
               {"seed", flags.seed}};
  json.update(load::to_json(report, measured));
  return json;
}

}  // namespace

CLI::Option* add_server_bench_flags(CLI::App* command, ServerBenchFlags& flags) {
  auto* url = command
                  ->add_option("--url", flags.url,
                               "in place of MODEL_DIR: load this server of OpenAI's API, as "
                               "http://127.0.0.1:8000")
                  ->type_name("URL")
                  ->group(kGroup);
  const auto add = [url](CLI::Option* option) { option->needs(url)->group(kGroup); };
  add_prompt_flags(command, flags, add);
  add_arrival_flags(command, flags, add);
  add_request_flags(command, flags, add);
  return url;
}

Result<int> run_server_bench(ServerBenchFlags flags, const std::string& json) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(json));
  load::LoadSettings& load = flags.load;
  const auto url = load::parse_server_url(flags.url);
  if (!url.ok()) return fail("--url: {}", url.error().message);
  load.url = *url;
  NMM_ASSIGN(load.api_key, api_key(flags));
  load.timeout = std::chrono::duration<double>(flags.timeout_s);
  load.arrivals.seed = load.request.seed.emplace(flags.seed);
  if (flags.endpoint == "chat") load.request.endpoint = load::Endpoint::kChat;
  allow_many_connections();
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(flags.tokenizer));
  NMM_ASSIGN(const auto prompts, make_prompts(flags, tokenizer));
  if (load.request.model.empty()) {
    NMM_ASSIGN(load.request.model, load::ask_model_name(load));
  }
  const std::span<const load::LoadPrompt> all(prompts);
  NMM_TRY(warm_up(load, all.first(flags.warmup), tokenizer));
  Progress progress(stderr);
  NMM_ASSIGN(const auto measured,
             load::measure_load(load, all.subspan(flags.warmup), tokenizer, progress));
  const load::LoadReport report = load::load_report(measured, flags.objectives);
  writer.print("{} {}\n", printable(load.request.model), load.url.text());
  print_report(writer, report);
  NMM_TRY(writer.write_json(json_of(flags, report, measured)));
  if (measured.interrupted) return kInterruptedExit;
  return report.completed == 0 ? 1 : 0;
}

}  // namespace neuronmm::apps
