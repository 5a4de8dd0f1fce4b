#include "kernel/nki_page.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "plot/bar_chart.h"
#include "plot/lanes.h"
#include "plot/page.h"
#include "plot/scatter_chart.h"
#include "plot/svg.h"

namespace neuronmm::apps {
namespace {

using simulator::DeviceSpec;
using simulator::Summary;

// Pixels of the lane of a DMA queue, of which there may be 16.
constexpr double kQueueHeight = 16;
constexpr const char* kCounterColours[] = {"#d55e00", "#b8a900", "#8c8c8c"};

// The colours of Okabe and Ito, one per engine and the same in every plot.
constexpr const char* kEngineColours[] = {"#0f82c8", "#e08e0b", "#00a078", "#cc79a7", "#8c8c8c"};
constexpr const char* kEngineNames[] = {"Tensor", "Vector", "Scalar", "GpSimd"};
constexpr size_t kComputeEngines = 4;

// The charts show microseconds for kernels below ten milliseconds.
struct TimeUnit {
  const char* name;
  double per_ns;
};
TimeUnit unit_of(double ms) { return ms < 10 ? TimeUnit{"us", 1e-3} : TimeUnit{"ms", 1e-6}; }

// The stretches of time that the lanes of a chart show.
struct Stretches {
  double ns = 1;
  size_t count = 0;
};

// Returns the lane of a track, or no lane for a queue that is never used.
std::optional<Lane> track_lane(const simulator::Timeline& timeline, size_t track,
                               const Stretches& stretches) {
  const bool queue = track >= kComputeEngines;
  Lane lane{.name = queue ? fmt::format("queue {}", track - kComputeEngines) : kEngineNames[track],
            .colour = kEngineColours[std::min(track, kComputeEngines)]};
  if (queue) lane.height = kQueueHeight;
  for (size_t i = 0; i < stretches.count; ++i) {
    lane.shares.push_back(timeline.utilization().share(static_cast<int>(track), i));
  }
  const bool used = std::ranges::any_of(lane.shares, [](double share) { return share > 0; });
  return used || !queue ? std::optional(lane) : std::nullopt;
}

// Returns the lane of a counter. It is as high as the capacity, or as the largest value if that is
// less than half of the capacity or above it.
Lane counter_lane(const simulator::Counter& counter, const char* colour,
                  const Stretches& stretches) {
  const std::vector<simulator::Counter::Step> steps = counter.steps();
  Lane lane{.name = counter.name(), .colour = colour};
  lane.shares = simulator::largest_values(steps, stretches.ns, stretches.count);
  const double most = counter.most(), capacity = counter.capacity();
  const double top = 2 * most < capacity ? most : std::max(most, capacity);
  for (double& share : lane.shares) share /= std::max(top, 1.0);
  if (capacity <= top) lane.limit = capacity / top;
  lane.note = fmt::format("at most {:.6g} of {:.6g} {}{}", most, capacity, counter.unit(),
                          counter.exact() ? "" : ", means of short stretches of time");
  return lane;
}

// Draws the engines, the DMA queues and the counters over time.
std::string timeline_section(const KernelRun& run, const simulator::Timeline& timeline) {
  const TimeUnit unit = unit_of(run.latency_ms());
  Stretches stretches{.ns = timeline.utilization().bin_ns()};
  LaneChart chart{.title = "Who is busy when", .unit = unit.name};
  chart.step = stretches.ns * unit.per_ns;
  chart.end = run.latency_ms() * 1e6 * unit.per_ns;
  stretches.count = static_cast<size_t>(std::ceil(chart.end / chart.step));
  for (size_t track = 0; track < timeline.tracks().size(); ++track) {
    if (auto lane = track_lane(timeline, track, stretches)) chart.lanes.push_back(std::move(*lane));
  }
  for (size_t i = 0; i < timeline.counters().size(); ++i) {
    chart.lanes.push_back(counter_lane(timeline.counters()[i],
                                       kCounterColours[i % std::size(kCounterColours)], stretches));
  }
  return "<h2>Timeline</h2>\n<p>The engines, the DMA queues that are used, and below them the "
         "memory and the transfers in use. A tensor counts from the begin of its first access to "
         "the end of its last one, and a dashed line is the capacity. <code>--trace</code> writes "
         "every instruction for ui.perfetto.dev.</p>\n<div class=\"wide\">\n" +
         lanes_figure(chart) + "</div>\n";
}

std::string bounds_plot(const KernelRun& run) {
  BarChart chart{.title = "The latency, and what no schedule beats", .unit = "ms"};
  chart.one_per_group = true;
  const auto add = [&chart](const std::string& name, double ms, const char* colour) {
    chart.groups.push_back(name);
    chart.series.push_back({name, colour, false, {}});
    for (BarSeries& series : chart.series) series.values.resize(chart.groups.size(), NAN);
    chart.series.back().values.back() = ms;
  };
  add("latency", run.latency_ms(), "#d55e00");
  const std::map<std::string_view, const char*> colours = {
      {"Tensor bound", kEngineColours[0]}, {"Vector bound", kEngineColours[1]},
      {"Scalar bound", kEngineColours[2]}, {"GpSimd bound", kEngineColours[3]},
      {"DMA bound", kEngineColours[4]},    {"compulsory", "#b8a900"}};
  for (const NamedBound& bound : bounds_of(run)) {
    add(std::string(bound.name), bound.ms, colours.at(bound.name));
  }
  for (BarSeries& series : chart.series) series.values.resize(chart.groups.size(), NAN);
  return bar_figure(chart);
}

// Draws the achieved rate against the rate that the FLOPs per byte of HBM allow. Returns an empty
// plot for a kernel without products.
std::string roofline_plot(const NkiReport& report, const DeviceSpec& device) {
  const double peak = device.peak_flops_per_ns() * 1e-3;  // TFLOP/s.
  const double bandwidth = std::min(device.dma_engines * device.dma_bandwidth,
                                    device.hbm_bandwidth.value) *
                           1e-3;  // TB/s.
  ScatterChart chart{.title = "Roofline", .x_name = "FLOP per byte over HBM", .y_name = "TFLOP/s"};
  chart.logarithmic_x = true;
  const auto add = [&chart](const KernelRun& run, const char* colour) {
    const Summary& m = run.timing.timing.summary;
    if (m.model_flops <= 0 || m.hbm_bytes() <= 0) return;
    chart.points.push_back({run.name, colour, m.model_flops / static_cast<double>(m.hbm_bytes()),
                            m.model_flops / m.total_time * 1e-12});
  };
  add(report.run, "#d55e00");
  if (report.other) add(*report.other, "#0f82c8");
  if (chart.points.empty()) return "";
  const double ridge = peak / bandwidth;
  double least = ridge / 4, most = ridge * 4;
  for (const ScatterPoint& point : chart.points) {
    least = std::min(least, point.x / 2), most = std::max(most, point.x * 2);
  }
  const std::string name =
      fmt::format("{}: {:.0f} GB/s, {:.1f} TFLOP/s", device.name, bandwidth * 1e3, peak);
  constexpr int kSteps = 32;  // The slope is a curve because only one axis is logarithmic.
  for (int i = 0; i <= kSteps; ++i) {
    const double x = least * std::pow(ridge / least, static_cast<double>(i) / kSteps);
    chart.line.push_back({name, "#8c8c8c", x, x * bandwidth});
  }
  chart.line.push_back({name, "#8c8c8c", most, peak});
  return scatter_figure(chart);
}

// The lines of the kernel's source files, as far as the files can be read.
class SourceText {
 public:
  std::string line(const std::string& file, int64_t number) {
    const auto [at, inserted] = files_.try_emplace(file);
    if (inserted) read(file, at->second);
    const auto index = static_cast<size_t>(number - 1);
    return number >= 1 && index < at->second.size() ? at->second[index] : "";
  }

 private:
  static void read(const std::string& file, std::vector<std::string>& lines) {
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
      const size_t begin = line.find_first_not_of(" \t");
      lines.push_back(begin == std::string::npos ? "" : line.substr(begin));
    }
  }
  std::map<std::string, std::vector<std::string>> files_;
};

std::string lines_section(const KernelRun& run) {
  std::string html =
      "<h2>Source lines</h2>\n<p>The kernel waits for one instruction after the other from its "
      "begin to its end; a line's stall is the time for which it waits for the line's "
      "instructions, and all stalls add up to the latency without its fixed part.</p>\n<div "
      "class=\"wide\">\n<table>\n"
      "<tr><th>line</th><th>stall, us</th><th>share</th><th>waits for</th><th>instructions</th>"
      "<th>busy, us</th><th>DMA, KiB</th><th>text</th></tr>\n";
  SourceText text;
  for (const trace::LineReport& line : run.timing.lines) {
    const trace::SourceLine& source = run.header.sources[line.source];
    html += "<tr>" + html_element("td", run.header.location(line.source)) +
            html_element("td", fmt::format("{:.2f}", line.stalled() / 1e3)) +
            html_element("td", fmt::format("{:.1f} %", line.stalled() / 1e4 / run.latency_ms())) +
            html_element("td", causes_text(line)) +
            html_element("td", std::to_string(line.instructions)) +
            html_element("td", fmt::format("{:.2f}", line.busy_ns / 1e3)) +
            html_element("td", line.bytes > 0
                                   ? fmt::format("{:.1f}", static_cast<double>(line.bytes) / 1024)
                                   : "") +
            "<td style=\"text-align:left\"><code>" +
            escape_xml(text.line(run.header.files[source.file], source.line)) +
            "</code></td></tr>\n";
  }
  return html + "</table>\n</div>\n";
}

}  // namespace

std::string nki_page(const NkiReport& report, const DeviceSpec& device,
                     const simulator::Timeline& timeline) {
  const std::string text = to_text(report, device, 0);
  return page_head(fmt::format("{} on {}", report.run.name, device.name)) +
         fmt::format(
             "<p>Simulated; no Trainium was used: {:.4g} ms, {}.</p>\n<div class=\"wide\">\n",
             report.run.latency_ms(), band_text(report.run, device)) +
         bounds_plot(report.run) + "</div>\n<div class=\"plots\">\n" +
         roofline_plot(report, device) + "</div>\n" + timeline_section(report.run, timeline) +
         lines_section(report.run) + "<h2>All numbers</h2>\n<div class=\"wide\"><pre>" +
         escape_xml(text) + "</pre></div>\n";
}

}  // namespace neuronmm::apps
