#include "kernel/nki_sweep.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "kernel/quantities.h"
#include "message.h"
#include "report_writer.h"
#include "trainium/trace/error_band.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostValues = 64;  // Assumed: each value starts Python anew.
constexpr size_t kNobody = std::numeric_limits<size_t>::max();

struct SweepRow {
  std::string value;
  SweepRun result;

  bool ran() const { return result.run.has_value(); }
  bool right() const {
    return ran() && std::ranges::all_of(result.run->results, &TracedResult::passed);
  }
  bool compared() const {
    return ran() && std::ranges::any_of(result.run->results, [](const TracedResult& each) {
             return each.error.has_value();
           });
  }
  double latency_ms() const { return result.run->latency_ms(); }
  double band_percent() const {
    const KernelRun& run = *result.run;
    return trace::error_band(run.timing, run.header.dialect, result.device.name).percent;
  }
};

bool is_name(const std::string& text) {
  const auto is_part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::ranges::all_of(text, is_part);
}

std::string without_blanks(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Splits a list at the commas outside of brackets and quotes.
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (c == ',' && depth == 0 && quote == 0) {
      values.emplace_back();
      continue;
    }
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    }
    values.back() += c;
  }
  std::ranges::transform(values, values.begin(), without_blanks);
  return values;
}

// Returns the row of the fastest right result, or kNobody.
size_t fastest_row(const std::vector<SweepRow>& rows) {
  size_t fastest = kNobody;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].right()) continue;
    if (fastest == kNobody || rows[i].latency_ms() < rows[fastest].latency_ms()) fastest = i;
  }
  return fastest;
}

// Returns the values whose latency lies inside the band of the fastest one, without that one.
std::vector<std::string> values_in_band(const std::vector<SweepRow>& rows, size_t fastest) {
  std::vector<std::string> values;
  if (fastest == kNobody) return values;
  const double most = rows[fastest].latency_ms() * (1 + rows[fastest].band_percent() / 100);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i != fastest && rows[i].right() && rows[i].latency_ms() <= most) {
      values.push_back(rows[i].value);
    }
  }
  return values;
}

std::string without_end_blanks(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string row_text(const SweepRow& row, double fastest_ms, bool compares) {
  if (!row.ran()) return "  fails: " + first_line(row.result.refusal);
  const auto bytes = [](int64_t count) { return bytes_of(static_cast<double>(count)); };
  const trace::TraceTiming& timing = row.result.run->timing;
  std::string text =
      fmt::format("{:>12}{:>10}{:>14}{:>14}   {:<12}", time_of(row.latency_ms()),
                  fastest_ms > 0 ? fmt::format("{:.2f}x", row.latency_ms() / fastest_ms) : "-",
                  bytes(timing.timing.summary.hbm_bytes()), bytes(timing.sbuf.bytes),
                  trace::class_name(trace::class_of(timing)));
  if (compares) text += row.right() ? "right" : "WRONG";
  return text;
}

std::string conclusion(const Sweep& sweep, const std::vector<SweepRow>& rows, size_t fastest) {
  if (std::ranges::none_of(rows, &SweepRow::ran)) return "\nthe kernel fails with every value\n";
  if (fastest == kNobody) return "\nno value gives a right result\n";
  const std::vector<std::string> others = values_in_band(rows, fastest);
  std::string text =
      fmt::format("\nfastest: {} = {}, {} ± {:.0f} %\n", sweep.name, rows[fastest].value,
                  time_of(rows[fastest].latency_ms()), rows[fastest].band_percent());
  return text + (others.empty() ? "no other value lies within this band\n"
                                : fmt::format("within this band, so that the simulator cannot tell "
                                              "which is faster: {}\n",
                                              fmt::join(others, ", ")));
}

std::string table_text(const Sweep& sweep, const std::string& kernel,
                       const std::vector<SweepRow>& rows) {
  const size_t fastest = fastest_row(rows);
  const bool compares = std::ranges::any_of(rows, &SweepRow::compared);
  size_t width = sweep.name.size();
  std::string device;
  for (const SweepRow& row : rows) {
    width = std::max(width, row.value.size());
    if (row.ran()) device = fmt::format(" on {}", row.result.device.name);
  }
  std::string text =
      fmt::format("simulated (no Trainium was used)\n\n{}{}, once for each value of {}\n\n", kernel,
                  device, sweep.name);
  text += without_end_blanks(fmt::format("  {:<{}}{:>12}{:>10}{:>14}{:>14}   {:<12}{}", sweep.name,
                                         width, "latency", "ratio", "HBM traffic", "SBUF",
                                         "bound by", compares ? "values" : "")) +
          "\n";
  const double fastest_ms = fastest == kNobody ? 0 : rows[fastest].latency_ms();
  for (const SweepRow& row : rows) {
    text += without_end_blanks(
                fmt::format("  {:<{}}{}", row.value, width, row_text(row, fastest_ms, compares))) +
            "\n";
  }
  return text + conclusion(sweep, rows, fastest);
}

Json row_json(const SweepRow& row, double fastest_ms) {
  Json json = {{"value", row.value}};
  if (!row.ran()) {
    json["failed"] = row.result.refusal;
    return json;
  }
  const trace::TraceTiming& timing = row.result.run->timing;
  json["latency_ms"] = row.latency_ms();
  json["ratio"] = fastest_ms > 0 ? Json(row.latency_ms() / fastest_ms) : Json();
  json["band_percent"] = row.band_percent();
  json["hbm_bytes"] = timing.timing.summary.hbm_bytes();
  json["sbuf_bytes_per_partition"] = timing.sbuf.bytes;
  json["psum_bytes_per_partition"] = timing.psum.bytes;
  json["class"] = trace::class_name(trace::class_of(timing));
  if (row.compared()) json["passed"] = row.right();
  return json;
}

Json sweep_json(const Sweep& sweep, const std::string& kernel, const std::vector<SweepRow>& rows) {
  const size_t fastest = fastest_row(rows);
  Json list = Json::array(), device;
  for (const SweepRow& row : rows) {
    list.push_back(row_json(row, fastest == kNobody ? 0 : rows[fastest].latency_ms()));
    if (row.ran()) device = row.result.device.name;
  }
  return {{"note", "simulated (no Trainium was used)"},
          {"device", device},
          {"kernel", kernel},
          {"sweep", sweep.name},
          {"rows", list},
          {"fastest", fastest == kNobody ? Json() : Json(rows[fastest].value)},
          {"within_band_of_fastest", values_in_band(rows, fastest)}};
}

// Returns the message of a wrong command line. Python calls the option --set.
std::string message_of_sweep(const std::string& message) {
  constexpr std::string_view kPython = "--set ";
  return message.starts_with(kPython) ? "--sweep " + message.substr(kPython.size()) : message;
}

// Returns whether something else than the kernel ended the run with one value. A kernel that ends
// Python without a word is to blame itself.
bool machine_failed(const TracerReport& tracer) {
  return !tracer.finished && !tracer.kernel_failed && !tracer.message.empty();
}

}  // namespace

Result<Sweep> parse_sweep(const std::string& text) {
  const size_t sign = text.find('=');
  Sweep sweep;
  if (sign != std::string::npos) {
    sweep.name = without_blanks(text.substr(0, sign));
    sweep.values = split_values(text.substr(sign + 1));
  }
  if (!is_name(sweep.name) || std::ranges::count(sweep.values, "") > 0) {
    return fail("expected NAME=V1,V2,... like TILE=128,256,512, found {:?}", text);
  }
  if (sweep.values.size() > kMostValues) {
    return fail("expected at most {} values, found {}", kMostValues, sweep.values.size());
  }
  return sweep;
}

Status check_sweep_options(const std::string& text,
                           const std::vector<std::pair<const char*, bool>>& others) {
  if (text.empty()) return {};
  for (const auto& [name, given] : others) {
    if (!given) continue;
    return fail("expected no {}, because a sweep runs a kernel several times and prints one table",
                name);
  }
  const auto sweep = parse_sweep(text);
  return sweep.ok() ? Status() : Status(sweep.error());
}

Result<int> run_nki_sweep(const Sweep& sweep, const TracerCall& call, const std::string& json,
                          const RunWithValue& run) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(json));
  std::vector<SweepRow> rows;
  for (const std::string& value : sweep.values) {
    TracerCall with_value = call;
    with_value.settings = {sweep.name + "=" + value};
    NMM_ASSIGN(SweepRun result, run(with_value));
    // A kernel may end Python with any exit code, but a wrong command line has a message.
    if (!result.run && result.tracer.exit_code == 2 && !result.tracer.message.empty()) {
      print_message("neuronmm nki: {}\n", message_of_sweep(result.refusal));
      return 2;
    }
    if (!result.run && machine_failed(result.tracer)) {
      return fail("--sweep {}={}: {}", sweep.name, value, result.refusal);
    }
    rows.push_back({value, std::move(result)});
  }
  if (writer.wants_json()) NMM_TRY(writer.write_json(sweep_json(sweep, call.kernel, rows)));
  writer.print("{}", table_text(sweep, call.kernel, rows));
  const bool none = std::ranges::none_of(rows, &SweepRow::ran);
  const bool wrong =
      std::ranges::any_of(rows, [](const SweepRow& row) { return row.ran() && !row.right(); });
  return none || wrong ? 1 : 0;
}

}  // namespace neuronmm::apps
