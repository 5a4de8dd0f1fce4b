// neuronmm bench: the latency report of one model, or of two side by side.

#include <optional>
#include <vector>

#include <fmt/core.h>

#include "commands.h"
#include "eval/latency_report.h"
#include "io/folder_writer.h"
#include "io/text_file.h"

namespace neuronmm::apps {
namespace {

constexpr int kInterruptedExit = 130;  // 128 + SIGINT, as for every interrupted command

struct BenchFlags {
  std::string model_dir, against_dir, json;
  eval::LatencySettings settings;
  DeviceOptions device;
};

void add_flags(CLI::App* command, BenchFlags& flags) {
  const CLI::Range count(int64_t{1}, int64_t{1} << 30);
  command->add_option("MODEL_DIR", flags.model_dir, "a Hugging Face model folder")->required();
  command->add_option("--against", flags.against_dir,
                      "a second model, run in turns with the first; speed-up = the latency of "
                      "MODEL_DIR over the latency of this one");
  command->add_option("--prompt-tokens", flags.settings.prompt_tokens, "random tokens to prefill")
      ->check(count)
      ->capture_default_str();
  command->add_option("--new-tokens", flags.settings.new_tokens, "tokens to make, 2 or more")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30))
      ->capture_default_str();
  command
      ->add_option("--batch", flags.settings.batch,
                   "sequences decoded together; latencies are the batch's, throughputs its sum")
      ->check(count)
      ->capture_default_str();
  command->add_option("--runs", flags.settings.runs, "timed runs of each model, after one warm-up")
      ->check(count)
      ->capture_default_str();
  command->add_option("--json", flags.json, "also write the report to this file");
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
}

struct Row {
  const char* what;
  const char* unit;
  double value;
};

// The statistics of the reference system's report, under its names.
void append_rows(const char* what, const eval::LatencyStatistics& s, std::vector<Row>& rows) {
  rows.insert(rows.end(), {{what, "p50 ms", s.p50},
                           {"", "p90 ms", s.p90},
                           {"", "p95 ms", s.p95},
                           {"", "p99 ms", s.p99},
                           {"", "p100 ms", s.p100},
                           {"", "avg ms", s.average},
                           {"", "tokens/s", s.throughput}});
}

// Rows in the order of the table; the speed-up is a column of the same rows.
std::vector<Row> table_rows(const eval::LatencyReport& report) {
  const eval::LatencyStatistics &ttft = report.context_encoding,
                                &tpot = report.time_per_output_token;
  std::vector<Row> rows;
  append_rows("e2e_model", report.end_to_end, rows);
  append_rows("context_encoding_model", report.context_encoding, rows);
  append_rows("token_generation_model", report.token_generation, rows);
  rows.insert(rows.end(), {{"time to first token (TTFT)", "mean ms", ttft.average},
                           {"", "p50 ms", ttft.p50},
                           {"", "p99 ms", ttft.p99},
                           {"time per output token (TPOT)", "mean ms", tpot.average},
                           {"", "p50 ms", tpot.p50},
                           {"", "p99 ms", tpot.p99},
                           {"generated tokens", "tokens/s", report.generated_tokens_per_s}});
  return rows;
}

void print_table(const std::vector<eval::LatencyReport>& reports) {
  std::vector<std::vector<Row>> columns;
  for (const eval::LatencyReport& report : reports) columns.push_back(table_rows(report));
  const bool two = reports.size() == 2;
  if (two) columns.push_back(table_rows(eval::speedup(reports[0], reports[1])));

  fmt::print("{:29} {:9} {:>11}", "", "", "model");
  if (two) fmt::print(" {:>11} {:>9}", "against", "speed-up");
  fmt::print("\n");
  for (size_t i = 0; i < columns[0].size(); ++i) {
    fmt::print("{:29} {:9} {:11.3f}", columns[0][i].what, columns[0][i].unit, columns[0][i].value);
    if (two) fmt::print(" {:11.3f} {:8.3f}x", columns[1][i].value, columns[2][i].value);
    fmt::print("\n");
  }
}

void print_report(const BenchFlags& flags, const std::string& device,
                  const std::vector<eval::LatencyReport>& reports) {
  fmt::print("model    {}\n", flags.model_dir);
  if (reports.size() == 2) {
    fmt::print("against  {}\nspeed-up = latency of model / latency of against\n",
               flags.against_dir);
  }
  fmt::print("{} prompt + {} new tokens x {}, {} of {} runs after 1 warm-up, {}\n",
             flags.settings.prompt_tokens, flags.settings.new_tokens, flags.settings.batch,
             reports[0].runs, flags.settings.runs, device);
  print_table(reports);
}

// Both models are loaded before either is timed: loading would disturb the other's runs.
Result<int> run_bench(const BenchFlags& flags) {
  NMM_ASSIGN(const auto backend, make_latency_backend(flags.device));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(flags.model_dir, *backend));
  std::vector<const model::Transformer*> models = {&transformer};
  std::optional<model::Transformer> against;
  if (!flags.against_dir.empty()) {
    NMM_ASSIGN(against, model::Transformer::load(flags.against_dir, *backend));
    models.push_back(&*against);
  }

  Progress progress(stderr);
  NMM_ASSIGN(const auto measurement, eval::measure_latency(models, flags.settings, progress));
  std::vector<eval::LatencyReport> reports;
  for (const auto& runs : measurement.models) {
    reports.push_back(eval::latency_report(runs, flags.settings));
  }
  print_report(flags, backend->name(), reports);
  if (!flags.json.empty()) {
    const eval::LatencyContext context = {flags.settings, backend->name(), flags.model_dir,
                                          flags.against_dir};
    NMM_TRY(io::write_text_file(flags.json, reports.size() == 2
                                                ? eval::to_json(reports[0], reports[1], context)
                                                : eval::to_json(reports[0], context)));
  }
  return measurement.interrupted ? kInterruptedExit : 0;
}

}  // namespace

void add_bench(Program& program) {
  CLI::App* command =
      program.add("bench", "Latency and throughput of a model, or of two side by side");
  auto flags = std::make_shared<BenchFlags>();
  add_flags(command, *flags);
  program.set_run(command, [flags] { return run_bench(*flags); });
}

}  // namespace neuronmm::apps
