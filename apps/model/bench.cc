// neuronmm bench: the latency report of one model, or of two side by side.

#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "commands.h"
#include "eval/latency_report.h"
#include "flags.h"
#include "io/gguf.h"
#include "io/model_name.h"
#include "io/shards.h"
#include "model/draft_option.h"
#include "model/tensor_specs.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct BenchFlags {
  std::string model_dir, against_dir, draft, json;
  eval::LatencySettings settings;  // the three lists below replace its fields of the same names
  std::vector<int64_t> prompt_tokens = {settings.prompt_tokens};
  std::vector<int64_t> new_tokens = {settings.new_tokens};
  std::vector<int64_t> batch = {settings.batch};
  DeviceOptions device;
};

void add_flags(CLI::App* command, BenchFlags& flags) {
  const CLI::Range count(int64_t{1}, int64_t{1} << 30);
  const auto list = [&](const char* name, std::vector<int64_t>& values, const char* help,
                        const CLI::Range& range) {
    command->add_option(name, values, help)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(range)
        ->type_name("N,...")
        ->capture_default_str()
        ->group(kInput);
  };
  command
      ->add_option("MODEL_DIR", flags.model_dir,
                   "Folder, GGUF file or name, or config.json for trn1 to trn3")
      ->required()
      ->group(kInput);
  add_adapter_option(command);
  auto* against = command
                      ->add_option("--against", flags.against_dir,
                                   "Also time this model, in turns with the first")
                      ->type_name("DIR")
                      ->group(kInput);
  command->add_option("--draft", flags.draft, "Also time the model with this draft, or with ngram")
      ->type_name("DIR")
      ->excludes(against)
      ->group(kInput);
  list("--prompt-tokens", flags.prompt_tokens, "Read N random tokens, for all N listed", count);
  list("--new-tokens", flags.new_tokens, "Generate N tokens, 2 or more",
       CLI::Range(int64_t{2}, int64_t{1} << 30));
  list("--batch", flags.batch, "Decode N sequences together", count);
  command->add_option("--runs", flags.settings.runs, "Time each model N times, after one warm-up")
      ->check(count)
      ->capture_default_str()
      ->group(kQuality);
  add_json_option(command, flags.json);
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
  add_numa_option(command, flags.device);
  add_kv_option(command, flags.device);
}

// Returns every combination of the lists, in the order of the lists.
std::vector<eval::LatencySettings> all_settings(const BenchFlags& flags) {
  std::vector<eval::LatencySettings> all;
  eval::LatencySettings settings = flags.settings;
  for (const int64_t batch : flags.batch) {
    for (const int64_t prompt : flags.prompt_tokens) {
      for (const int64_t made : flags.new_tokens) {
        settings.batch = batch;
        settings.prompt_tokens = prompt;
        settings.new_tokens = made;
        all.push_back(settings);
      }
    }
  }
  return all;
}

struct Row {
  const char* what;
  const char* unit;
  double value;
};

// Appends the statistics under the names that the reference system's report gives them.
void append_rows(const char* what, const eval::LatencyStatistics& s, std::vector<Row>& rows) {
  rows.insert(rows.end(), {{what, "p50 ms", s.p50},
                           {"", "p90 ms", s.p90},
                           {"", "p95 ms", s.p95},
                           {"", "p99 ms", s.p99},
                           {"", "p100 ms", s.p100},
                           {"", "avg ms", s.average},
                           {"", "tokens/s", s.throughput}});
}

// Returns the rows in the order of the table. The speed-ups are a column with the same rows.
std::vector<Row> table_rows(const eval::LatencyReport& report) {
  const eval::LatencyStatistics &ttft = report.context_encoding,
                                &tpot = report.time_per_output_token;
  std::vector<Row> rows;
  append_rows("e2e_model", report.end_to_end, rows);
  append_rows("context_encoding_model", report.context_encoding, rows);
  append_rows("token_generation_model", report.token_generation, rows);
  rows.insert(rows.end(),
              {{"time to first token (TTFT)", "mean ms", ttft.average},
               {"", "p50 ms", ttft.p50},
               {"", "p99 ms", ttft.p99},
               {"time per output token (TPOT)", "mean ms", tpot.average},
               {"", "p50 ms", tpot.p50},
               {"", "p99 ms", tpot.p99},
               {"new tokens, prefill and all", "tokens/s", report.generated_tokens_per_s}});
  return rows;
}

// `second` is the heading of the second column.
void print_table(const ReportWriter& writer, const std::vector<eval::LatencyReport>& reports,
                 const char* second) {
  std::vector<std::vector<Row>> columns;
  columns.reserve(reports.size());
  for (const eval::LatencyReport& report : reports) columns.push_back(table_rows(report));
  const bool two = reports.size() == 2;
  if (two) columns.push_back(table_rows(eval::speedup(reports[0], reports[1])));

  writer.print("{:29} {:9} {:>11}", "", "", "model");
  if (two) writer.print(" {:>11} {:>9}", second, "speed-up");
  writer.print("\n");
  for (size_t i = 0; i < columns[0].size(); ++i) {
    writer.print("{:29} {:9} {:11.3f}", columns[0][i].what, columns[0][i].unit,
                 columns[0][i].value);
    if (two) writer.print(" {:11.3f} {:8.3f}x", columns[1][i].value, columns[2][i].value);
    writer.print("\n");
  }
}

void print_speed(const ReportWriter& writer, const char* what, const char* second,
                 const std::vector<eval::LatencyReport>& reports,
                 eval::LatencyStatistics eval::LatencyReport::*statistics) {
  const double model = (reports[0].*statistics).throughput;
  writer.print("{:8} {:>11.1f} tokens/s", what, model);
  if (reports.size() == 2) {
    const double against = (reports[1].*statistics).throughput;
    writer.print(", {} {:.1f} tokens/s: {:.3f}x", second, against, against / model);
  }
  writer.print("\n");
}

void print_report(const ReportWriter& writer, const BenchFlags& flags,
                  const eval::LatencyContext& context,
                  const std::vector<eval::LatencyReport>& reports) {
  const eval::LatencySettings& settings = context.settings;
  const char* const second = flags.draft.empty() ? "against" : "with draft";
  print_speed(writer, "prefill", second, reports, &eval::LatencyReport::context_encoding);
  print_speed(writer, "decode", second, reports, &eval::LatencyReport::token_generation);
  writer.print("{} prompt + {} new tokens x {}, {} of {} runs after 1 warm-up, {}\n",
               settings.prompt_tokens, settings.new_tokens, settings.batch, reports[0].runs,
               settings.runs, context.device);
  writer.print("model    {}\n", flags.model_dir);
  if (!flags.draft.empty()) {
    const model::DraftCounts& counts = reports[1].draft;
    writer.print("draft    {}, accepted {} of {} proposed tokens\n", flags.draft, counts.accepted,
                 counts.proposed);
  } else if (reports.size() == 2) {
    writer.print("against  {}\n", flags.against_dir);
  }
  if (reports.size() == 2) writer.print("speed-up = latency of model / latency of {}\n", second);
  print_table(writer, reports, second);
}

// Loads the model. A simulated device computes no values, so a config.json, which has the shapes,
// is enough for it.
Result<model::Transformer> load_model(const std::string& model_dir, const BenchFlags& flags,
                                      const ops::Backend& backend) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool is_folder = io::may_be_model(model_dir);
  const fs::path folder = is_folder ? fs::path(model_dir) : fs::path(model_dir).parent_path();
  const bool has_weights = io::is_gguf(folder) ||
                           fs::exists(folder / io::kSingleFileName, ignored) ||
                           fs::exists(folder / io::kIndexFileName, ignored);
  if (!flags.device.simulated() || (is_folder && has_weights)) {
    return model::Transformer::load(model_dir, backend);
  }
  NMM_ASSIGN(auto config,
             io::ModelConfig::load(is_folder ? folder / "config.json" : fs::path(model_dir)));
  if (config.quantization) {
    return fail("{}: a NeuronCore's products with int8 and smaller weights are not simulated",
                model_dir);
  }
  NMM_ASSIGN(auto zeros, io::Checkpoint::zeros(model_dir, model::tensor_specs(config)));
  return model::Transformer::load(std::move(config), std::move(zeros), backend);
}

// The models to be timed, and the draft of each or null.
struct TimedModels {
  std::vector<const model::Transformer*> models;
  std::vector<model::Speculation*> drafts;
};

// Measures and prints one combination of the lists and appends it to `runs`. Returns whether an
// interrupt ended the measurement.
Result<bool> run_settings(const BenchFlags& flags, const eval::LatencyContext& context,
                          const TimedModels& timed, const ReportWriter& writer, Json& runs) {
  Progress progress(stderr);
  NMM_ASSIGN(const auto measurement,
             eval::measure_latency(timed.models, context.settings, progress, timed.drafts));
  std::vector<eval::LatencyReport> reports;
  for (const auto& times : measurement.models) {
    reports.push_back(eval::latency_report(times, context.settings));
  }
  if (!runs.empty()) writer.print("\n");
  print_report(writer, flags, context, reports);
  runs.push_back(Json::parse(reports.size() == 2 ? eval::to_json(reports[0], reports[1], context)
                                                 : eval::to_json(reports[0], context)));
  return measurement.interrupted;
}

// The two models are loaded before either is timed, because loading would disturb the other's runs.
Result<int> run_bench(const BenchFlags& flags) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
  NMM_ASSIGN(const auto backend, make_latency_backend(flags.device));
  NMM_ASSIGN(const auto transformer, load_model(flags.model_dir, flags, *backend));
  NMM_ASSIGN(const auto draft, load_draft(flags.draft, transformer, nullptr));
  const auto speculation = make_speculation(draft, transformer);
  TimedModels timed = {{&transformer}, {nullptr}};
  std::optional<model::Transformer> against;
  if (!flags.against_dir.empty()) {
    NMM_ASSIGN(against, load_model(flags.against_dir, flags, *backend));
    timed.models.push_back(&*against);
  }
  if (speculation) {
    timed.models.push_back(&transformer);
    timed.drafts.push_back(speculation.get());
  }
  for (const eval::LatencySettings& settings : all_settings(flags)) {
    NMM_TRY(eval::check_latency(timed.models, settings));
  }
  Json runs = Json::array();
  bool stopped = false;
  for (const eval::LatencySettings& settings : all_settings(flags)) {
    const eval::LatencyContext context = {settings, backend->name(), flags.model_dir,
                                          flags.against_dir, flags.draft};
    NMM_ASSIGN(stopped, run_settings(flags, context, timed, writer, runs));
    if (stopped) break;
  }
  if (speculation && speculation->failure())
    print_draft_failure(flags.draft, *speculation->failure());
  NMM_TRY(writer.write_json(runs.size() == 1 ? runs[0] : Json{{"runs", runs}}));
  return stopped ? kInterruptedExit : 0;
}

}  // namespace

void add_bench(Program& program) {
  CLI::App* command = program.add(
      CommandGroup::kModels, "bench", "Measure the speed of a model, or of two side by side",
      {"neuronmm bench MODEL_DIR", "neuronmm bench MODEL_DIR --against small --batch 1,8"});
  auto flags = std::make_shared<BenchFlags>();
  add_flags(command, *flags);
  program.set_run(
      command, [flags] { return run_bench(*flags); }, ProcessMode::kTensorParallel);
}

}  // namespace neuronmm::apps
