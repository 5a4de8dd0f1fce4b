#include "paper/paper_measured.h"

#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::apps {
namespace {

using io::JsonFields;
using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "neuronmm-check-1";

// A step of the report that has measured times.
struct TimedStep {
  const char* step;  // The step's name in check_on_trainium.py.
  // The model's name in "predicted". The time with our kernels is compared with the prediction for
  // the factored model.
  const char* model;
  const char* what;
};
constexpr TimedStep kTimedSteps[] = {{"latency_dense", "dense", "dense"},
                                     {"latency_factored", "factored", "factored"},
                                     {"latency_kernels", "factored", "factored, our kernels"}};
struct Time {
  const char* key;
  const char* what;
};
constexpr Time kTimes[] = {{"context_encoding_model", "prefill"},
                           {"token_generation_model", "a token"},
                           {"e2e_model", "a request"}};

struct MeasuredRow {
  std::string model, device;
  const char* what;
  const char* quantity;
  double measured_ms, simulated_ms;
  double difference() const { return simulated_ms / measured_ms - 1; }
};

Result<JsonFields> object_at(const JsonFields& fields, const std::string& key) {
  const nlohmann::json* value = fields.find(key);
  if (value == nullptr) return fields.missing(key);
  if (!value->is_object()) return fields.wrong(key, "an object");
  return JsonFields(*value, fmt::format("{}: \"{}\"", fields.source(), key));
}

Result<double> milliseconds(const JsonFields& fields, const std::string& key) {
  NMM_ASSIGN(const double value, fields.number_in(key, 0.0, 1e12));
  if (value == 0.0) return fields.wrong(key, "more than 0 ms");
  return value;
}

// Adds the rows of one step that passed.
Status add_rows(const TimedStep& step, const JsonFields& found, const JsonFields& exported,
                std::vector<MeasuredRow>& rows) {
  NMM_ASSIGN(const JsonFields model, object_at(exported, "model"));
  NMM_ASSIGN(const JsonFields predicted, object_at(exported, "predicted"));
  NMM_ASSIGN(const JsonFields simulated, object_at(predicted, step.model));
  NMM_ASSIGN(const std::string name, model.required_string("name"));
  NMM_ASSIGN(const std::string device, exported.required_string("device"));
  for (const Time& time : kTimes) {
    NMM_ASSIGN(const JsonFields statistics, object_at(found, time.key));
    NMM_ASSIGN(const double measured, milliseconds(statistics, "latency_ms_p50"));
    NMM_ASSIGN(const double expected, milliseconds(simulated, time.key));
    rows.push_back({printable(name), printable(device), step.what, time.what, measured, expected});
  }
  return {};
}

Result<std::vector<MeasuredRow>> read_rows(const nlohmann::json& report,
                                           const std::string& source) {
  const JsonFields fields(report, source);
  NMM_ASSIGN(const auto format, fields.string("format"));
  if (format != kFormat) return fields.wrong("format", fmt::format("\"{}\"", kFormat));
  NMM_ASSIGN(const JsonFields exported, object_at(fields, "export"));
  NMM_ASSIGN(const JsonFields steps, object_at(fields, "steps"));
  std::vector<MeasuredRow> rows;
  for (const TimedStep& timed : kTimedSteps) {
    if (steps.find(timed.step) == nullptr) continue;
    NMM_ASSIGN(const JsonFields step, object_at(steps, timed.step));
    NMM_ASSIGN(const std::string result, step.required_string("result"));
    if (result != "pass") continue;
    NMM_ASSIGN(const JsonFields found, object_at(step, "found"));
    NMM_TRY(add_rows(timed, found, exported, rows));
  }
  if (rows.empty())
    return fail("{}: no step \"latency_...\" has passed: no time was measured", source);
  return rows;
}

}  // namespace

Result<MeasuredRows> measured_rows(const std::filesystem::path& file) {
  NMM_ASSIGN(const nlohmann::json report, io::read_json_object(file, io::kMaxConfigBytes));
  NMM_ASSIGN(const auto rows, read_rows(report, file.string()));
  MeasuredRows result;
  result.text = fmt::format(
      "measured by an owner, {}\n  {:<32} {:<22} {:<5} {:<14} {:>13} {:>13} {:>9}\n", file.string(),
      "model", "MLPs", "core", "quantity", "measured ms", "simulated ms", "difference");
  Json json = Json::array();
  for (const MeasuredRow& row : rows) {
    result.text += fmt::format("  {:<32} {:<22} {:<5} {:<14} {:>13.6g} {:>13.6g} {:>+7.1f} %\n",
                               row.model, row.what, row.device, row.quantity, row.measured_ms,
                               row.simulated_ms, 100 * row.difference());
    json.push_back({{"set", "measured"},
                    {"model", row.model},
                    {"mlps", row.what},
                    {"device", row.device},
                    {"quantity", row.quantity},
                    {"measured_ms", row.measured_ms},
                    {"simulated_ms", row.simulated_ms},
                    {"difference", row.difference()}});
  }
  result.json = json.dump(2) + "\n";
  return result;
}

}  // namespace neuronmm::apps
