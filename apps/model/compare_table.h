#pragma once
// Turns the results of `neuronmm compare` into the rows of a table, its text and JSON. In every
// list of models the dense model is the first.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "eval/evaluation.h"
#include "eval/trade_off.h"
#include "io/model_config.h"
#include "model/mlp_size.h"

namespace neuronmm::apps {

// A model of the table and everything that was measured on it.
struct ComparedModel {
  std::string name;
  int64_t size_bytes = 0;
  MlpSize mlp = {};
  std::optional<io::CompressionRecord> record = {};
  // The task results. For each model except the dense one, text tasks include the divergence from
  // the dense model.
  eval::Evaluation evaluation = {};
  double speedup = 1.0;  // latency of the dense model over the latency of this one

  // Returns the mean accuracy over the multiple-choice tasks, of which there must be one.
  double mean_accuracy() const { return eval::mean_accuracy(evaluation.results)->value; }
};

// Returns how much of the mean accuracy the model lost, or nothing if no task has an accuracy.
std::optional<eval::AccuracyLoss> accuracy_lost(const ComparedModel& dense,
                                                const ComparedModel& model);
// Returns gamma, the accuracy lost per speed gained (eval/trade_off.h). There is no value if the
// model is not faster or if the loss may be due to chance.
std::optional<double> gamma_of(const ComparedModel& dense, const ComparedModel& model);

// A table with a column per model.
struct ComparisonTable {
  struct Row {
    std::string name;
    std::vector<std::string> cells;  // one per model
  };
  std::vector<std::string> models;
  std::vector<Row> rows;
};
// Returns the table. `speedup_name` is the name of the row with the speed-ups.
ComparisonTable comparison_table(const std::vector<ComparedModel>& models,
                                 const std::string& speedup_name);
// Returns the table as text in aligned columns.
std::string table_text(const ComparisonTable& table);

// Returns the results of one model as JSON, with its losses against the dense model.
nlohmann::ordered_json compared_json(const ComparedModel& dense, const ComparedModel& model);

}  // namespace neuronmm::apps
