// neuronmm compare: what compressed models lose and gain against the dense one, in one table.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "commands.h"
#include "eval/latency_report.h"
#include "eval/trade_off.h"
#include "message.h"
#include "model/evaluation_flags.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct CompareFlags {
  std::string dense_dir, json;
  std::vector<std::string> compressed_dirs;
  EvaluationFlags evaluation;
  eval::LatencySettings latency;
  DeviceOptions device;
};

void add_flags(CLI::App* command, CompareFlags& flags) {
  const CLI::Range count(int64_t{1}, int64_t{1} << 30);
  command->add_option("DENSE_DIR", flags.dense_dir, "the model before compression")->required();
  command->add_option("COMPRESSED_DIR", flags.compressed_dirs, "one or more models made of it")
      ->required();
  add_evaluation_flags(command, flags.evaluation);
  command->add_option("--prompt-tokens", flags.latency.prompt_tokens, "of the timed generations")
      ->check(count)
      ->capture_default_str();
  command->add_option("--new-tokens", flags.latency.new_tokens, "of the timed generations")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30))
      ->capture_default_str();
  command->add_option("--runs", flags.latency.runs, "timed runs of each model, after one warm-up")
      ->check(count)
      ->capture_default_str();
  add_json_option(command, flags.json, "the table");
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
  command->footer(
      "acc, perplexity  with half of the 95 % confidence interval\n"
      "mAcc      the unweighted mean of acc over the accuracy tasks (the paper: all six)\n"
      "mAcc lost with half of the interval of the difference: both models answer the same items\n"
      "speed-up  mean latency of the dense model's generations, prompt and new tokens, over the\n"
      "          compressed model's; both run in turns, as in `neuronmm bench --against`. With\n"
      "          --device trn1, trn2 or trn3 it is predicted by the simulator; quality is the "
      "CPU's\n"
      "gamma     (mAcc of dense - mAcc) / (speed-up - 1): accuracy lost per 100 % of speed "
      "gained;\n"
      "          lower is better; - where there is no speed-up, and where the loss is no larger\n"
      "          than its interval. The speed degradation ratio of arXiv 2406.15786, inferred to "
      "be the paper's from its published pairs");
}

// One model of the table; the dense one is first.
struct Column {
  std::string name;
  int64_t size_bytes = 0;
  eval::Evaluation evaluation;
  double speedup = 1.0;

  double mean_accuracy() const { return eval::mean_accuracy(evaluation.results)->value; }
};

// What can be wrong with a model, found before the first one computes for hours.
Status check_model(const std::string& folder, const CompareFlags& flags) {
  NMM_ASSIGN(const auto config,
             io::ModelConfig::load(std::filesystem::path(folder) / "config.json"));
  NMM_ASSIGN(const auto checkpoint, io::Checkpoint::open(folder));
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(folder));
  const int64_t tokens = flags.latency.prompt_tokens + flags.latency.new_tokens;
  if (tokens <= config.max_position_embeddings) return {};
  return fail("{}: --prompt-tokens {} and --new-tokens {} do not fit max_position_embeddings {}",
              folder, flags.latency.prompt_tokens, flags.latency.new_tokens,
              config.max_position_embeddings);
}

// The last part of the path, which is what tells columns apart.
std::string short_name(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// An interrupted evaluation has fewer tasks than the dense model's: the model gets no column.
Result<Column> evaluate_model(const std::string& folder, const model::Transformer& transformer,
                              const std::vector<eval::TaskData>& data,
                              const eval::EvaluationSettings& settings, Progress& progress) {
  Column column = {short_name(folder), transformer.checkpoint().size_bytes(), {}, 1.0};
  progress.print(fmt::format("model {}", folder));
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(folder));
  NMM_ASSIGN(column.evaluation, eval::evaluate(transformer, tokenizer, data, settings, progress));
  if (!column.evaluation.stopped.empty()) return interrupted_error(column.evaluation.stopped);
  return column;
}

// A simulated device predicts times; the quality is computed by the host.
DeviceOptions host(DeviceOptions device) {
  if (device.simulated()) device.device = "cpu";
  return device;
}

// Both models take turns, so that what disturbs the machine disturbs both.
Result<double> measure_speedup(const model::Transformer& dense, const model::Transformer& other,
                               const eval::LatencySettings& settings, Progress& progress) {
  NMM_ASSIGN(const auto measured, eval::measure_latency({{&dense, &other}}, settings, progress));
  if (measured.interrupted) return interrupted_error("its latency");
  const auto average = [&](size_t i) {
    return eval::latency_report(measured.models[i], settings).end_to_end.average;
  };
  return average(0) / average(1);
}

// From shapes alone: no value is computed.
Result<double> predict_speedup(const std::string& folder, const CompareFlags& flags,
                               Progress& progress) {
  NMM_ASSIGN(const auto backend, make_latency_backend(flags.device));
  NMM_ASSIGN(const auto dense, model::Transformer::load(flags.dense_dir, *backend));
  NMM_ASSIGN(const auto compressed, model::Transformer::load(folder, *backend));
  return measure_speedup(dense, compressed, flags.latency, progress);
}

// The dense model stays loaded, as the one that the others are timed against.
Result<Column> compare_model(const std::string& folder, const model::Transformer& dense,
                             const std::vector<eval::TaskData>& data, const CompareFlags& flags,
                             Progress& progress) {
  NMM_ASSIGN(const auto transformer, model::Transformer::load(folder, dense.backend()));
  NMM_ASSIGN(Column column,
             evaluate_model(folder, transformer, data, flags.evaluation.settings(), progress));
  NMM_ASSIGN(column.speedup, flags.device.simulated()
                                 ? predict_speedup(folder, flags, progress)
                                 : measure_speedup(dense, transformer, flags.latency, progress));
  return column;
}

// Half of a 95 % confidence interval beside the value; nothing where a single item gives none.
std::string with_interval(double value, double standard_error) {
  if (!std::isfinite(standard_error)) return fmt::format("{:.4f}", value);
  return fmt::format("{:.4f} ± {:.4f}", value, eval::kInterval * standard_error);
}

std::optional<eval::AccuracyLoss> loss_of(const Column& dense, const Column& column) {
  return eval::accuracy_loss(dense.evaluation.results, column.evaluation.results);
}

std::optional<double> gamma_of(const Column& dense, const Column& column) {
  const auto loss = loss_of(dense, column);
  if (!loss || loss->is_noise()) return {};
  return eval::gamma(dense.mean_accuracy(), column.mean_accuracy(), column.speedup);
}

void print_row(const ReportWriter& writer, const std::string& name,
               const std::vector<Column>& columns,
               const std::function<std::string(const Column&)>& cell) {
  writer.print("{:32}", name);
  for (const Column& column : columns) {
    writer.print(" {:>{}}", cell(column), std::max<size_t>(16, column.name.size()));
  }
  writer.print("\n");
}

std::string row_name(const eval::TaskResult& result) {
  const std::string_view name = result.task->name;
  if (!result.perplexity) return fmt::format("{} acc, {} items", name, result.items.size());
  return fmt::format("{} perplexity, {} tokens", name, result.perplexity->scored_tokens);
}

void print_task_rows(const ReportWriter& writer, const std::vector<Column>& columns) {
  const auto& tasks = columns[0].evaluation.results;
  for (size_t i = 0; i < tasks.size(); ++i) {
    print_row(writer, row_name(tasks[i]), columns, [&](const Column& column) {
      const eval::TaskResult& result = column.evaluation.results[i];
      if (result.perplexity) {
        return with_interval(result.perplexity->perplexity, result.perplexity->standard_error);
      }
      return with_interval(result.score->acc.value, result.score->acc.standard_error);
    });
  }
}

void print_table(const ReportWriter& writer, const std::vector<Column>& columns,
                 const CompareFlags& flags) {
  const Column& dense = columns[0];
  print_row(writer, "", columns, [](const Column& column) { return column.name; });
  print_row(writer, "size, MB", columns, [](const Column& column) {
    return fmt::format("{:.2f}", static_cast<double>(column.size_bytes) / 1e6);
  });
  print_task_rows(writer, columns);
  const auto mean = eval::mean_accuracy(dense.evaluation.results);
  if (mean) {
    print_row(writer, fmt::format("mAcc, {} tasks", mean->tasks), columns,
              [](const Column& column) { return fmt::format("{:.4f}", column.mean_accuracy()); });
  }
  const bool simulated = flags.device.simulated();
  print_row(writer, simulated ? "speed-up, " + flags.device.device + " simulated" : "speed-up",
            columns, [](const Column& column) { return fmt::format("{:.3f}x", column.speedup); });
  if (!mean) return;
  print_row(writer, "mAcc lost", columns, [&](const Column& column) {
    const auto loss = loss_of(dense, column);
    return &column == &dense ? std::string("-") : with_interval(loss->value, loss->standard_error);
  });
  print_row(writer, "gamma", columns, [&](const Column& column) {
    const auto value = gamma_of(dense, column);
    return value ? fmt::format("{:.2f} %", 100.0 * *value) : std::string("-");
  });
}

Json column_json(const Column& dense, const Column& column) {
  Json json = {{"model", column.name}, {"size_bytes", column.size_bytes}};
  for (const eval::TaskResult& result : column.evaluation.results) {
    const std::string name(result.task->name);
    if (result.perplexity) {
      json[name] = result.perplexity->perplexity;
      json[name + "_stderr"] = result.perplexity->standard_error;  // NaN becomes null
      json[name + "_tokens"] = result.perplexity->scored_tokens;
      continue;
    }
    json[name] = result.score->acc.value;
    json[name + "_stderr"] = result.score->acc.standard_error;  // NaN becomes null
    json[name + "_items"] = result.items.size();
  }
  json["speedup"] = column.speedup;
  if (!eval::mean_accuracy(column.evaluation.results)) return json;
  json["mean_acc"] = column.mean_accuracy();
  const auto loss = loss_of(dense, column);
  json["mean_acc_lost"] = loss->value;
  json["mean_acc_lost_stderr"] = loss->standard_error;
  const auto value = gamma_of(dense, column);
  json["gamma"] = value ? Json(*value) : Json();
  return json;
}

Json to_json(const std::vector<Column>& columns, const CompareFlags& flags) {
  Json models = Json::array();
  for (const Column& column : columns) models.push_back(column_json(columns[0], column));
  return {{"models", models},
          {"limit", flags.evaluation.limit},
          {"add_bos", !flags.evaluation.no_bos},
          {"prompt_tokens", flags.latency.prompt_tokens},
          {"new_tokens", flags.latency.new_tokens},
          {"runs", flags.latency.runs},
          {"speedup_on", flags.device.device},
          {"speedup_simulated", flags.device.simulated()}};
}

// All folders and data sets are checked before the first model computes.
Result<int> run_compare(const CompareFlags& flags) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
  NMM_TRY(check_model(flags.dense_dir, flags));
  for (const std::string& folder : flags.compressed_dirs) NMM_TRY(check_model(folder, flags));
  const auto settings = flags.evaluation.settings();
  NMM_ASSIGN(const auto tasks, tasks_with_files(flags.evaluation));
  NMM_ASSIGN(const auto data, eval::read_tasks(tasks, settings));
  NMM_ASSIGN(const auto backend, make_backend(host(flags.device)));

  Progress progress(stderr);
  NMM_ASSIGN(const auto dense, model::Transformer::load(flags.dense_dir, *backend));
  std::vector<Column> columns;
  NMM_ASSIGN(columns.emplace_back(),
             evaluate_model(flags.dense_dir, dense, data, settings, progress));
  std::string stopped;
  for (const std::string& folder : flags.compressed_dirs) {
    Result<Column> column = compare_model(folder, dense, data, flags, progress);
    if (column) {
      columns.push_back(std::move(column).value());
      continue;
    }
    if (column.error().kind != Error::Kind::kInterrupted) return column.error();
    stopped = fmt::format("{}: {}", folder, column.error().message);
    break;
  }
  print_table(writer, columns, flags);
  NMM_TRY(writer.write_json(to_json(columns, flags)));
  if (stopped.empty()) return 0;
  print_message("neuronmm compare: {}; the models above are complete\n", stopped);
  return kInterruptedExit;
}

}  // namespace

void add_compare(Program& program) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "compare",
                  "Size, quality and speed of compressed models against the dense one");
  auto flags = std::make_shared<CompareFlags>();
  add_flags(command, *flags);
  program.set_run(command, [flags] { return run_compare(*flags); });
}

}  // namespace neuronmm::apps
