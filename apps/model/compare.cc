// The command neuronmm compare: size, quality and speed of compressed models against the dense
// model, in one table.

#include <filesystem>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "commands.h"
#include "eval/latency_report.h"
#include "message.h"
#include "model/compare_page.h"
#include "model/compare_table.h"
#include "model/evaluation_flags.h"
#include "model/quality_text.h"
#include "output_file.h"
#include "plot/page.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct CompareFlags {
  std::string dense_dir, json, html;
  std::vector<std::string> compressed_dirs;
  EvaluationFlags evaluation;
  eval::LatencySettings latency;
  DeviceOptions device;
};

void add_flags(CLI::App* command, CompareFlags& flags) {
  const CLI::Range count(int64_t{1}, int64_t{1} << 30);
  command
      ->add_option("DENSE_DIR", flags.dense_dir, "Folder, GGUF file or name of the original model")
      ->required()
      ->group(kInput);
  command
      ->add_option("COMPRESSED_DIR", flags.compressed_dirs,
                   "Smaller versions of that model, by compress, quantize or fit")
      ->required()
      ->group(kInput);
  add_evaluation_flags(command, flags.evaluation);
  add_json_option(command, flags.json, "the table");
  command->add_option("--html", flags.html, "Also write table and plots as a page; - is stdout")
      ->type_name("FILE")
      ->group(kOutput);
  command
      ->add_option("--prompt-tokens", flags.latency.prompt_tokens, "Read N tokens in a timed run")
      ->check(count)
      ->capture_default_str()
      ->group(kSpeed);
  command->add_option("--new-tokens", flags.latency.new_tokens, "Generate N tokens in a timed run")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30))
      ->capture_default_str()
      ->group(kSpeed);
  command->add_option("--runs", flags.latency.runs, "Time each model N times, after one warm-up")
      ->check(count)
      ->capture_default_str()
      ->group(kSpeed);
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
  command->footer(
      "Columns of the table:\n"
      "  KL        KL(dense || compressed) in nats per token\n"
      "  top-1     share of tokens where both models find the same one likeliest\n"
      "  mAcc      mean accuracy of the accuracy tasks\n"
      "  speed-up  mean latency of the dense model over the compressed model's\n"
      "  gamma     (mAcc of dense - mAcc) / (speed-up - 1), arXiv 2406.15786; lower is\n"
      "            better, and - stands where there is no gain or no clear loss\n"
      "Intervals are half of 95 % confidence intervals.");
}

// Checks that a model can be compared with the dense one. The checks come before the first model
// computes, which may take hours.
Status check_model(const std::string& folder, const CompareFlags& flags) {
  NMM_ASSIGN(const auto config,
             io::ModelConfig::load(std::filesystem::path(folder) / "config.json"));
  NMM_ASSIGN(const auto checkpoint, io::Checkpoint::open(folder));
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(folder));
  NMM_ASSIGN(const auto dense_config,
             io::ModelConfig::load(std::filesystem::path(flags.dense_dir) / "config.json"));
  NMM_ASSIGN(const auto dense_tokenizer, text::Tokenizer::load(flags.dense_dir));
  NMM_TRY(eval::check_comparable(dense_config, config, eval::default_context(config)));
  NMM_TRY(eval::check_same_tokens(dense_tokenizer, flags.dense_dir, tokenizer, folder, ""));
  const int64_t tokens = flags.latency.prompt_tokens + flags.latency.new_tokens;
  if (tokens <= config.max_position_embeddings) return {};
  return fail("{}: --prompt-tokens {} and --new-tokens {} do not fit max_position_embeddings {}",
              folder, flags.latency.prompt_tokens, flags.latency.new_tokens,
              config.max_position_embeddings);
}

// Returns the last part of the path, which is the name of the model's column.
std::string short_name(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// The tasks that every model is evaluated on, and the settings.
struct Evaluator {
  const std::vector<eval::LoadedTask>& data;
  eval::EvaluationSettings settings;
  Progress& progress;
};

// Returns the column of a model without its speed-up. If the evaluation is interrupted, the result
// is an error and the model gets no column, because it has fewer results than the dense model.
Result<ComparedModel> evaluate_model(const std::string& folder,
                                     const model::Transformer& transformer,
                                     const text::Tokenizer& tokenizer, const Evaluator& evaluator,
                                     const eval::Reference* dense) {
  ComparedModel column = {.name = short_name(folder),
                          .size_bytes = transformer.checkpoint().size_bytes(),
                          .mlp = mlp_size(transformer.checkpoint(), transformer.config()),
                          .record = transformer.config().compression};
  evaluator.progress.print(fmt::format("model {}", folder));
  NMM_ASSIGN(column.evaluation, eval::evaluate(transformer, tokenizer, evaluator.data,
                                               evaluator.settings, evaluator.progress, dense));
  if (!column.evaluation.interruption.empty())
    return interrupted_error(column.evaluation.interruption);
  for (const eval::TaskResult& result : column.evaluation.results) {
    if (result.calibrated_on) note_calibrated_on(folder, result.file.string());
  }
  return column;
}

// Returns the options for computing the quality. A simulated device only predicts times, so the CPU
// computes the quality.
DeviceOptions quality_device(DeviceOptions device) {
  if (device.simulated()) device.device = "cpu";
  return device;
}

// Returns the mean latency of the dense model over that of the other model. The models run in
// turns, so that a disturbance of the machine affects both.
Result<double> measure_speedup(const model::Transformer& dense, const model::Transformer& other,
                               const eval::LatencySettings& settings, Progress& progress) {
  NMM_ASSIGN(const auto measured, eval::measure_latency({{&dense, &other}}, settings, progress));
  if (measured.interrupted) return interrupted_error("its latency");
  const auto average = [&](size_t i) {
    return eval::latency_report(measured.models[i], settings).end_to_end.average;
  };
  return average(0) / average(1);
}

// Returns the speed-up that the simulator predicts from the shapes; it computes no values.
Result<double> predict_speedup(const std::string& folder, const CompareFlags& flags,
                               Progress& progress) {
  NMM_ASSIGN(const auto backend, make_latency_backend(flags.device));
  NMM_ASSIGN(const auto dense, model::Transformer::load(flags.dense_dir, *backend));
  NMM_ASSIGN(const auto compressed, model::Transformer::load(folder, *backend));
  return measure_speedup(dense, compressed, flags.latency, progress);
}

// Returns the column of a compressed model. The dense model stays loaded, because each other model
// is compared with it and timed against it.
Result<ComparedModel> compare_model(const std::string& folder, const eval::Reference& dense,
                                    const Evaluator& evaluator, const CompareFlags& flags) {
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(folder));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(folder, dense.model.backend()));
  NMM_ASSIGN(ComparedModel column,
             evaluate_model(folder, transformer, tokenizer, evaluator, &dense));
  NMM_ASSIGN(column.speedup,
             flags.device.simulated()
                 ? predict_speedup(folder, flags, evaluator.progress)
                 : measure_speedup(dense.model, transformer, flags.latency, evaluator.progress));
  return column;
}

Json to_json(const std::vector<ComparedModel>& columns, const CompareFlags& flags) {
  Json models = Json::array();
  for (const ComparedModel& column : columns) models.push_back(compared_json(columns[0], column));
  return {{"models", models},
          {"limit", number_or_null(flags.evaluation.limit)},
          {"add_bos", !flags.evaluation.no_bos},
          {"prompt_tokens", flags.latency.prompt_tokens},
          {"new_tokens", flags.latency.new_tokens},
          {"runs", flags.latency.runs},
          {"speedup_on", flags.device.device},
          {"speedup_simulated", flags.device.simulated()}};
}

std::string speedup_name(const CompareFlags& flags) {
  return flags.device.simulated() ? "speed-up, " + flags.device.device + " simulated" : "speed-up";
}

// Returns the paragraphs above the plots of the page.
std::vector<std::string> page_notes(const std::vector<ComparedModel>& columns,
                                    const CompareFlags& flags) {
  std::vector<std::string> notes = {fmt::format(
      "Against {}. Speed-up: {} prompt tokens and {} new ones, timed runs: {}{}.", flags.dense_dir,
      flags.latency.prompt_tokens, flags.latency.new_tokens, flags.latency.runs,
      flags.evaluation.limit > 0
          ? fmt::format("; the first {} items of each task and chunks of each text",
                        flags.evaluation.limit)
          : "")};
  for (const ComparedModel& column : columns) {
    for (const eval::TaskResult& result : column.evaluation.results) {
      if (!result.calibrated_on) continue;
      notes.push_back(fmt::format("{} was calibrated on the text of {}: others tell more of it.",
                                  column.name, result.task->name));
    }
  }
  return notes;
}

// The files of the results, opened before the work begins.
struct Outputs {
  ReportWriter report;
  OutputFile html;
};

Status write_results(Outputs& outputs, const std::vector<ComparedModel>& columns,
                     const CompareFlags& flags) {
  const ComparisonTable table = comparison_table(columns, speedup_name(flags));
  // With `--html -` standard output holds only the page, so the table goes to standard error.
  if (outputs.html.to_stdout()) {
    print_message("{}", table_text(table));
  } else {
    outputs.report.print("{}", table_text(table));
  }
  NMM_TRY(outputs.report.write_json(to_json(columns, flags)));
  if (!outputs.html.wanted()) return {};
  NMM_ASSIGN(const std::string page, finished_page(compare_page(columns, table, speedup_name(flags),
                                                                page_notes(columns, flags))));
  return outputs.html.write(page);
}

// All folders and data sets are checked before the first model computes. After an interrupt the
// finished columns are written, and the exit code is 130.
Result<int> run_compare(const CompareFlags& flags) {
  if (flags.html == "-" && flags.json == "-") {
    return fail("--html and --json: only one of them can go to standard output");
  }
  Outputs outputs;
  NMM_ASSIGN(outputs.report, ReportWriter::open(flags.json));
  NMM_ASSIGN(outputs.html, OutputFile::open(flags.html));
  NMM_TRY(check_model(flags.dense_dir, flags));
  for (const std::string& folder : flags.compressed_dirs) NMM_TRY(check_model(folder, flags));
  const auto settings = flags.evaluation.settings();
  NMM_ASSIGN(const auto tasks, tasks_with_files(flags.evaluation));
  NMM_ASSIGN(const auto data, eval::read_tasks(tasks, settings));
  NMM_ASSIGN(const auto backend, make_backend(quality_device(flags.device)));

  Progress progress(stderr);
  const Evaluator evaluator = {data, settings, progress};
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(flags.dense_dir));
  NMM_ASSIGN(const auto dense, model::Transformer::load(flags.dense_dir, *backend));
  const eval::Reference reference = {dense, tokenizer, flags.dense_dir};
  std::vector<ComparedModel> columns;
  NMM_ASSIGN(columns.emplace_back(),
             evaluate_model(flags.dense_dir, dense, tokenizer, evaluator, nullptr));
  std::string stopped;
  for (const std::string& folder : flags.compressed_dirs) {
    Result<ComparedModel> column = compare_model(folder, reference, evaluator, flags);
    if (column) {
      columns.push_back(std::move(column).value());
      continue;
    }
    if (column.error().kind != Error::Kind::kInterrupted) return column.error();
    stopped = fmt::format("{}: {}", folder, column.error().message);
    break;
  }
  NMM_TRY(write_results(outputs, columns, flags));
  if (stopped.empty()) return 0;
  print_message("neuronmm compare: {}; the models above are complete\n", stopped);
  return kInterruptedExit;
}

}  // namespace

void add_compare(Program& program) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "compare",
                  "Compare compressed models with the dense one: size, quality, speed",
                  {"neuronmm compare MODEL_DIR small --data evaluation_data",
                   "neuronmm compare MODEL_DIR a b --data evaluation_data --html page.html"});
  auto flags = std::make_shared<CompareFlags>();
  add_flags(command, *flags);
  program.set_run(
      command, [flags] { return run_compare(*flags); }, ProcessMode::kTensorParallel);
}

}  // namespace neuronmm::apps
