#pragma once
// What `neuronmm compare` found, as the rows of a table and as JSON.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "eval/evaluation.h"
#include "eval/trade_off.h"
#include "io/model_config.h"
#include "model/mlp_size.h"

namespace neuronmm::apps {

// One model of the table; the dense one is first.
struct ComparedModel {
  std::string name;
  int64_t size_bytes = 0;
  MlpSize mlp = {};
  std::optional<io::CompressionRecord> record = {};
  eval::Evaluation evaluation = {};  // of all but the first: its texts against the first
  double speedup = 1.0;              // over the first

  double mean_accuracy() const { return eval::mean_accuracy(evaluation.results)->value; }
};

// Of the mean accuracies; nothing where no task has one.
std::optional<eval::AccuracyLoss> accuracy_lost(const ComparedModel& dense,
                                                const ComparedModel& model);
// Nothing where there is no speed-up, and where the loss may be chance.
std::optional<double> gamma_of(const ComparedModel& dense, const ComparedModel& model);

struct ComparisonTable {
  struct Row {
    std::string name;
    std::vector<std::string> cells;  // one per model
  };
  std::vector<std::string> models;
  std::vector<Row> rows;
};
// `speedup_name` names that row.
ComparisonTable comparison_table(const std::vector<ComparedModel>& models,
                                 const std::string& speedup_name);
std::string table_text(const ComparisonTable& table);

// Of one model against the first.
nlohmann::ordered_json compared_json(const ComparedModel& dense, const ComparedModel& model);

}  // namespace neuronmm::apps
