#include "model/compare_table.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "eval/perplexity_json.h"
#include "model/quality_text.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;
using Models = std::vector<ComparedModel>;
using Cell = std::function<std::string(const ComparedModel&)>;

// Collects the rows of the table. A row is added as a function that writes one model's cell.
class TableBuilder {
 public:
  explicit TableBuilder(const Models& models) : models_(models) {
    for (const ComparedModel& model : models) table_.models.push_back(model.name);
  }
  void add_row(std::string name, const Cell& cell) {
    ComparisonTable::Row& row = table_.rows.emplace_back();
    row.name = std::move(name);
    for (const ComparedModel& model : models_) row.cells.push_back(cell(model));
  }
  // Adds a row that compares each model with the dense one, whose own cell is "-".
  void add_row_against_dense(std::string name, const Cell& cell) {
    add_row(std::move(name), [&](const ComparedModel& model) {
      return &model == models_.data() ? std::string("-") : cell(model);
    });
  }
  ComparisonTable take() { return std::move(table_); }

 private:
  const Models& models_;
  ComparisonTable table_;
};

void add_text_rows(TableBuilder& builder, const eval::TaskResult& dense, size_t task) {
  const auto name = [&](const char* what) { return fmt::format("{} {}", dense.task->name, what); };
  const auto result = [task](const ComparedModel& model) -> const eval::TaskResult& {
    return model.evaluation.results[task];
  };
  builder.add_row(
      fmt::format("{} perplexity, {} tokens", dense.task->name, dense.perplexity->scored_tokens),
      [&](const ComparedModel& model) {
        const eval::PerplexityReport& report = *result(model).perplexity;
        return with_interval(report.perplexity, report.half_interval());
      });
  const auto divergence = [&](const ComparedModel& model) -> const eval::DivergenceSummary& {
    return *result(model).divergence;
  };
  builder.add_row_against_dense(name("KL, nats per token"), [&](const ComparedModel& model) {
    return divergence_text(divergence(model).divergence);
  });
  builder.add_row_against_dense(name("top-1 agreement"), [&](const ComparedModel& model) {
    return with_interval(divergence(model).agreement);
  });
  builder.add_row_against_dense(
      name("loss added, nats per token"),
      [&](const ComparedModel& model) { return with_interval(divergence(model).added_loss); });
}

void add_choice_rows(TableBuilder& builder, const eval::TaskResult& dense, size_t task) {
  builder.add_row(fmt::format("{} acc, {} items", dense.task->name, dense.items.size()),
                  [&](const ComparedModel& model) {
                    const eval::Accuracy& acc = model.evaluation.results[task].score->acc;
                    return with_interval(acc.value, eval::kInterval * acc.standard_error);
                  });
  const auto paired = [&](const ComparedModel& model) {
    return eval::paired_accuracy(dense, model.evaluation.results[task]);
  };
  builder.add_row_against_dense(
      fmt::format("{} acc lost", dense.task->name),
      [&](const ComparedModel& model) { return with_interval(paired(model).accuracy_lost); });
  builder.add_row_against_dense(
      fmt::format("{} same choice", dense.task->name),
      [&](const ComparedModel& model) { return with_interval(paired(model).choice_agreement); });
}

void add_trade_off_rows(TableBuilder& builder, const ComparedModel& dense) {
  builder.add_row_against_dense("mAcc lost", [&](const ComparedModel& model) {
    const auto loss = accuracy_lost(dense, model);
    return with_interval(loss->value, eval::kInterval * loss->standard_error);
  });
  builder.add_row_against_dense("gamma", [&](const ComparedModel& model) {
    const auto value = gamma_of(dense, model);
    return value ? fmt::format("{:.2f} %", 100.0 * *value) : std::string("-");
  });
}

// Returns the number of code points, because "±" has two bytes but one column on a terminal.
size_t display_width(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, size_t width) {
  return std::string(width - std::min(width, display_width(text)), ' ') + text;
}

}  // namespace

std::optional<eval::AccuracyLoss> accuracy_lost(const ComparedModel& dense,
                                                const ComparedModel& model) {
  return eval::accuracy_loss(dense.evaluation.results, model.evaluation.results);
}

std::optional<double> gamma_of(const ComparedModel& dense, const ComparedModel& model) {
  const auto loss = accuracy_lost(dense, model);
  if (!loss || loss->is_noise()) return {};
  return eval::accuracy_lost_per_speedup(dense.mean_accuracy(), model.mean_accuracy(),
                                         model.speedup);
}

ComparisonTable comparison_table(const Models& models, const std::string& speedup_name) {
  TableBuilder builder(models);
  const ComparedModel& dense = models.front();
  builder.add_row("size, MB", [](const ComparedModel& model) {
    return fmt::format("{:.2f}", static_cast<double>(model.size_bytes) / 1e6);
  });
  builder.add_row("MLP, MFLOP per token", [](const ComparedModel& model) {
    return fmt::format("{:.3f}", static_cast<double>(model.mlp.flops_per_token()) / 1e6);
  });
  const std::vector<eval::TaskResult>& tasks = dense.evaluation.results;
  for (size_t i = 0; i < tasks.size(); ++i) {
    tasks[i].perplexity ? add_text_rows(builder, tasks[i], i)
                        : add_choice_rows(builder, tasks[i], i);
  }
  const auto mean = eval::mean_accuracy(tasks);
  if (mean) {
    builder.add_row(fmt::format("mAcc, {} tasks", mean->tasks), [](const ComparedModel& model) {
      return fmt::format("{:.4f}", model.mean_accuracy());
    });
  }
  builder.add_row(speedup_name,
                  [](const ComparedModel& model) { return fmt::format("{:.3f}x", model.speedup); });
  if (mean) add_trade_off_rows(builder, dense);
  return builder.take();
}

std::string table_text(const ComparisonTable& table) {
  size_t name_width = 32;
  std::vector<size_t> widths;
  for (const std::string& model : table.models) {
    widths.push_back(std::max<size_t>(16, display_width(model)));
  }
  for (const ComparisonTable::Row& row : table.rows) {
    name_width = std::max(name_width, display_width(row.name));
    for (size_t i = 0; i < row.cells.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row.cells[i]));
    }
  }
  std::string text;
  const auto add_line = [&](const std::string& name, const std::vector<std::string>& cells) {
    text += name + std::string(name_width - std::min(name_width, display_width(name)), ' ');
    for (size_t i = 0; i < cells.size(); ++i) text += " " + padded(cells[i], widths[i]);
    text += "\n";
  };
  add_line("", table.models);
  for (const ComparisonTable::Row& row : table.rows) add_line(row.name, row.cells);
  return text;
}

namespace {

void add_task_json(Json& json, const eval::TaskResult& dense, const eval::TaskResult& result,
                   bool is_dense) {
  const std::string name(result.task->name);
  if (result.perplexity) {
    json[name] = result.perplexity->perplexity;
    json[name + "_stderr"] = result.perplexity->standard_error;  // NaN becomes null
    json[name + "_tokens"] = result.perplexity->scored_tokens;
    json[name + "_calibrated_on_text"] = result.calibrated_on;
    if (!result.divergence) return;
    const Json divergence = eval::divergence_json(*result.divergence);
    for (const auto& [key, value] : divergence.items()) {
      json[fmt::format("{}_{}", name, key)] = value;
    }
    return;
  }
  json[name] = result.score->acc.value;
  json[name + "_stderr"] = result.score->acc.standard_error;  // NaN becomes null
  json[name + "_items"] = result.items.size();
  if (is_dense) return;
  const eval::PairedAccuracy paired = eval::paired_accuracy(dense, result);
  eval::add_estimate(json, name + "_acc_lost", paired.accuracy_lost);
  eval::add_estimate(json, name + "_choice_agreement", paired.choice_agreement);
}

}  // namespace

Json compared_json(const ComparedModel& dense, const ComparedModel& model) {
  Json json = {{"model", model.name},
               {"size_bytes", model.size_bytes},
               {"mlp_parameters", model.mlp.parameters()},
               {"mlp_flops_per_token", model.mlp.flops_per_token()}};
  for (size_t i = 0; i < model.evaluation.results.size(); ++i) {
    add_task_json(json, dense.evaluation.results[i], model.evaluation.results[i], &model == &dense);
  }
  json["speedup"] = model.speedup;
  if (!eval::mean_accuracy(model.evaluation.results)) return json;
  json["mean_acc"] = model.mean_accuracy();
  const auto loss = accuracy_lost(dense, model);
  json["mean_acc_lost"] = loss->value;
  json["mean_acc_lost_stderr"] = loss->standard_error;
  const auto value = gamma_of(dense, model);
  json["gamma"] = value ? Json(*value) : Json();
  return json;
}

}  // namespace neuronmm::apps
