#include "serve/load/load_report.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace neuronmm::load {
namespace {

using ReportJson = nlohmann::ordered_json;

constexpr double kMs = 1000.0;

struct NamedObjective {
  const char* name;
  std::optional<double> ServiceObjectives::*value;
};
constexpr NamedObjective kObjectives[] = {{"ttft", &ServiceObjectives::ttft},
                                          {"tpot", &ServiceObjectives::tpot},
                                          {"e2el", &ServiceObjectives::e2el}};

void append(const char* name, const Summary& summary, ReportJson& json) {
  const auto add = [&](const char* what, double value) {
    json[fmt::format("{}_{}_ms", what, name)] = value;
  };
  add("mean", summary.mean);
  add("median", summary.median);
  add("std", summary.deviation);
  add("p90", summary.p90);
  add("p99", summary.p99);
}

}  // namespace

std::optional<double> RequestTiming::tpot() const {
  if (output_tokens < 2) return std::nullopt;
  return (latency - ttft) / static_cast<double>(output_tokens - 1);
}

bool ServiceObjectives::kept_by(const RequestTiming& timing) const {
  const auto kept = [](const std::optional<double>& most, double seconds) {
    return !most || seconds * kMs <= *most;
  };
  return kept(ttft, timing.ttft) && kept(tpot, timing.tpot().value_or(0.0)) &&
         kept(e2el, timing.latency);
}

std::string ServiceObjectives::text() const {
  std::string text;
  for (const auto& [name, value] : kObjectives) {
    if (!(this->*value)) continue;
    text += fmt::format("{}{} <= {} ms", text.empty() ? "" : ", ", name, *(this->*value));
  }
  return text;
}

Status add_objective(std::string_view text, ServiceObjectives& objectives) {
  const size_t colon = text.find(':');
  for (const auto& [name, value] : kObjectives) {
    if (text.substr(0, colon) != name || colon == std::string_view::npos) continue;
    double most = 0.0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + colon + 1, last, most);
    if (error != std::errc() || end != last || !std::isfinite(most) || most <= 0.0) break;
    objectives.*value = most;
    return {};
  }
  return fail("expected ttft:MS, tpot:MS or e2el:MS, found {:?}", text);
}

LoadReport load_report(const LoadMeasurement& measurement, const ServiceObjectives& objectives) {
  LoadReport report;
  std::vector<double> ttft, tpot, itl, e2el;
  int64_t good = 0;
  for (const RequestTiming& timing : measurement.completed) {
    ttft.push_back(timing.ttft * kMs);
    if (const auto time = timing.tpot()) tpot.push_back(*time * kMs);
    for (const double gap : timing.gaps) itl.push_back(gap * kMs);
    e2el.push_back(timing.latency * kMs);
    report.prompt_tokens += timing.prompt_tokens;
    report.output_tokens += timing.output_tokens;
    if (objectives.kept_by(timing)) ++good;
  }
  report.ttft = summarize(std::move(ttft));
  report.tpot = summarize(std::move(tpot));
  report.itl = summarize(std::move(itl));
  report.e2el = summarize(std::move(e2el));
  report.completed = std::ssize(measurement.completed);
  for (const auto& [kind, error] : measurement.errors) report.failed += error.count;
  report.errors = measurement.errors;
  report.unfinished = measurement.unfinished;
  report.peak_concurrency = measurement.peak_concurrency;
  report.duration = measurement.duration;
  const auto per_second = [&](int64_t count) {
    return report.duration > 0.0 ? static_cast<double>(count) / report.duration : 0.0;
  };
  report.request_throughput = per_second(report.completed);
  report.output_throughput = per_second(report.output_tokens);
  report.total_throughput = per_second(report.prompt_tokens + report.output_tokens);
  report.objectives = objectives;
  if (objectives.any()) report.goodput = per_second(good);
  return report;
}

ReportJson to_json(const LoadReport& report, const LoadMeasurement& measurement) {
  ReportJson json = {{"completed", report.completed},
                     {"failed", report.failed},
                     {"unfinished", report.unfinished},
                     {"duration", report.duration},
                     {"max_concurrent_requests", report.peak_concurrency},
                     {"total_input_tokens", report.prompt_tokens},
                     {"total_output_tokens", report.output_tokens},
                     {"request_throughput", report.request_throughput},
                     {"output_throughput", report.output_throughput},
                     {"total_token_throughput", report.total_throughput}};
  if (report.goodput) {
    json["request_goodput"] = *report.goodput;
    for (const auto& [name, value] : kObjectives) {
      if (report.objectives.*value)
        json["goodput_objectives_ms"][name] = *(report.objectives.*value);
    }
  }
  append("ttft", report.ttft, json);
  append("tpot", report.tpot, json);
  append("itl", report.itl, json);
  append("e2el", report.e2el, json);
  json["errors"] = ReportJson::object();
  for (const auto& [kind, error] : report.errors)
    json["errors"][kind] = {{"count", error.count}, {"first_message", error.first_message}};
  json["requests"] = ReportJson::array();
  for (const RequestTiming& timing : measurement.completed) {
    json["requests"].push_back({{"ttft_ms", timing.ttft * kMs},
                                {"e2el_ms", timing.latency * kMs},
                                {"prompt_tokens", timing.prompt_tokens},
                                {"output_tokens", timing.output_tokens}});
  }
  return json;
}

}  // namespace neuronmm::load
