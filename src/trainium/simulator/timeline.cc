#include "trainium/simulator/timeline.h"

#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace neuronmm::simulator {

namespace {

using Json = nlohmann::ordered_json;

Json metadata_of(const std::vector<Counter>& counters) {
  Json rows = Json::array();
  for (const Counter& counter : counters) {
    rows.push_back({{"name", counter.name()},
                    {"unit", counter.unit()},
                    {"capacity", counter.capacity()},
                    {"most", counter.most()},
                    {"note", counter.exact() ? "exact" : "the mean of each stretch of time"}});
  }
  return rows;
}

}  // namespace

int Timeline::add_track(std::string name) {
  tracks_.push_back(std::move(name));
  return static_cast<int>(tracks_.size()) - 1;
}

// Returns the index of the text as a JSON string. Labels and names recur by the thousand, so each
// is escaped once.
int Timeline::intern(const std::string& text) {
  const auto [at, inserted] = ids_.try_emplace(text, static_cast<int>(quoted_.size()));
  if (inserted) quoted_.push_back(Json(text).dump());
  return at->second;
}

int Timeline::add_counter(std::string name, std::string unit, double capacity) {
  counters_.emplace_back(std::move(name), std::move(unit), capacity);
  return static_cast<int>(counters_.size()) - 1;
}

// Perfetto names a counter after the event and the key of its value.
void Timeline::append_counters(std::string& text) const {
  for (const Counter& counter : counters_) {
    const std::string name = Json(counter.name()).dump(), unit = Json(counter.unit()).dump();
    for (const Counter::Step& step : counter.steps()) {
      fmt::format_to(
          std::back_inserter(text),
          ",\n{{\"name\":{},\"ph\":\"C\",\"pid\":1,\"ts\":{:.4f},\"args\":{{{}:{:.10g}}}}}", name,
          step.ns / 1e3, unit, step.value);
    }
  }
}

// The document is built as text. A JSON tree of 200,000 events would take hundreds of megabytes to
// write tens.
std::string Timeline::json(std::string_view program, std::string_view device) const {
  Json metadata = {
      {"program", program},
      {"device", device},
      {"events", total_},
      {"events_kept", kept()},
      {"note", total_ > kept() ? fmt::format("only the first {} of {} events", kept(), total_)
                               : std::string("complete")}};
  if (!counters_.empty()) metadata["counters"] = metadata_of(counters_);
  std::string text = "{\"otherData\":" + metadata.dump() + ",\"displayTimeUnit\":\"ns\"";
  text += ",\"traceEvents\":[\n";
  text += Json({{"name", "process_name"},
                {"ph", "M"},
                {"pid", 1},
                {"args", {{"name", fmt::format("{} on {}", program, device)}}}})
              .dump();
  for (size_t i = 0; i < tracks_.size(); ++i) {
    // Perfetto names a track after its "thread". Without thread_sort_index it would sort the tracks
    // by name.
    const Json thread = {{"ph", "M"}, {"pid", 1}, {"tid", i}};
    Json name = thread, order = thread;
    name["name"] = "thread_name";
    name["args"] = {{"name", tracks_[i]}};
    order["name"] = "thread_sort_index";
    order["args"] = {{"sort_index", i}};
    text += ",\n" + name.dump() + ",\n" + order.dump();
  }
  // The trace event format expects "ts" and "dur" in microseconds.
  for (const Event& event : events_) {
    fmt::format_to(std::back_inserter(text),
                   ",\n{{\"name\":{},\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.4f},"
                   "\"dur\":{:.4f},\"args\":{{\"buffer\":{}",
                   quoted_[static_cast<size_t>(event.label)], event.track, event.begin_ns / 1e3,
                   (event.end_ns - event.begin_ns) / 1e3,
                   quoted_[static_cast<size_t>(event.buffer)]);
    if (event.bytes > 0) fmt::format_to(std::back_inserter(text), ",\"bytes\":{}", event.bytes);
    text += "}}";
  }
  append_counters(text);
  return text + "\n]}\n";
}

}  // namespace neuronmm::simulator
