#include "plot/bar_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "plot/svg.h"

namespace neuronmm::apps {
namespace {

// Sizes in pixels. A chart is as wide as a page of documentation.
constexpr double kWidth = 1040, kLeft = 80, kRight = 20, kTop = 74, kPlotHeight = 280;

Axis axis_of(const BarChart& chart) {
  std::vector<double> values;
  for (const BarSeries& series : chart.series) {
    values.insert(values.end(), series.values.begin(), series.values.end());
  }
  return {values, chart.logarithmic ? Axis::Scale::kLogarithmic : Axis::Scale::kLinear, true};
}

double height_on(const Axis& axis, double value) { return kPlotHeight * axis.fraction(value); }

std::string legend_of(const BarChart& chart, double top) {
  std::vector<LegendEntry> entries;
  for (const BarSeries& series : chart.series) {
    entries.push_back({series.name, series.colour, series.pale});
  }
  return svg_legend(entries, kLeft, top + 40, HUGE_VAL).svg;
}

std::string grid(const BarChart& chart, const Axis& axis, double bottom) {
  std::string svg;
  for (const double tick : axis.ticks()) {
    const double y = bottom - height_on(axis, tick);
    svg += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"currentColor\" "
        "stroke-opacity=\"0.15\"/>\n",
        kLeft, kWidth - kRight, y, y);
    svg += svg_text(kLeft - 8, y + 4, "text-anchor=\"end\"", tick_text(tick));
  }
  const double middle = bottom - kPlotHeight / 2;
  const std::string upwards =
      fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 20 {:.1f})\"", middle);
  return svg + svg_text(20, middle, upwards, chart.unit);
}

// The bars of a group stand side by side, or at one place if only one series has a value there.
// Every bar has its numbers as a title, which a browser shows under the pointer.
std::string bars(const BarChart& chart, const Axis& axis, double bottom) {
  std::string svg;
  const double group = (kWidth - kLeft - kRight) / static_cast<double>(chart.groups.size());
  const size_t bars_per_group = chart.one_per_group ? 1 : chart.series.size();
  const double bar = 0.84 * group / static_cast<double>(bars_per_group);
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const BarSeries& series = chart.series[s];
    for (size_t g = 0; g < chart.groups.size(); ++g) {
      const double value = series.values[g];
      if (std::isnan(value) || (chart.logarithmic && value <= 0)) continue;
      const double x = kLeft + group * (static_cast<double>(g) + 0.08) +
                       bar * static_cast<double>(s % bars_per_group);
      const double from = kPlotHeight * axis.base(), to = height_on(axis, value);
      const double y = bottom - std::max(from, to);
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
          "fill-opacity=\"{}\" stroke=\"{}\"><title>{} {}: {:.4g} {}</title></rect>\n",
          x, y, 0.92 * bar, std::abs(to - from), series.colour, series.pale ? 0.3 : 1.0,
          series.colour, escape_xml(series.name), escape_xml(chart.groups[g]), value,
          escape_xml(chart.unit));
      if (bar < 30) continue;  // The bar is too narrow for its value.
      svg += svg_text(x + 0.46 * bar, value < 0 ? bottom - to + 12 : y - 3,
                      "text-anchor=\"middle\" font-size=\"10\"", fmt::format("{:.4g}", value));
    }
  }
  return svg;
}

// Returns true if all names fit side by side. A character is assumed to be 6.8 pixels wide.
bool names_fit(const BarChart& chart) {
  const double group = (kWidth - kLeft - kRight) / static_cast<double>(chart.groups.size());
  return std::ranges::all_of(chart.groups, [&](const std::string& name) {
    return 6.8 * static_cast<double>(name.size()) <= group;
  });
}

// Returns the end of a long name, which fits below the axis when turned. The ends tell models
// apart.
std::string shortened(const std::string& name) {
  constexpr size_t kLongest = 28;
  if (name.size() <= kLongest) return name;
  size_t begin = name.size() - kLongest;
  // The loop skips bytes inside a UTF-8 character.
  while (begin < name.size() && (name[begin] & 0xC0) == 0x80) ++begin;
  return "…" + name.substr(begin);
}

// Names that would overlap side by side are turned, which takes more space below the axis.
std::string group_names(const BarChart& chart, double bottom) {
  std::string svg;
  const double group = (kWidth - kLeft - kRight) / static_cast<double>(chart.groups.size());
  for (size_t g = 0; g < chart.groups.size(); ++g) {
    const double x = kLeft + group * (static_cast<double>(g) + 0.5);
    if (names_fit(chart)) {
      svg += svg_text(x, bottom + 18, "text-anchor=\"middle\"", chart.groups[g]);
    } else {
      const std::string rotation = fmt::format(
          "text-anchor=\"end\" transform=\"rotate(-60 {:.1f} {:.1f})\"", x + 4, bottom + 12);
      svg += svg_text(x + 4, bottom + 12, rotation, shortened(chart.groups[g]));
    }
  }
  const double below = names_fit(chart) ? 40 : 190;
  return svg + svg_text(kLeft + (kWidth - kLeft - kRight) / 2, bottom + below,
                        "text-anchor=\"middle\"", chart.groups_name);
}

double height_of(const BarChart& chart) {
  return kTop + kPlotHeight + (names_fit(chart) ? 60 : 210);
}

std::string body_of(const BarChart& chart, double top) {
  const Axis axis = axis_of(chart);
  const double bottom = top + kTop + kPlotHeight, base = bottom - kPlotHeight * axis.base();
  return svg_text(kLeft, top + 26, "font-size=\"16\" font-weight=\"bold\"", chart.title) +
         legend_of(chart, top) + grid(chart, axis, bottom) + bars(chart, axis, bottom) +
         group_names(chart, bottom) +
         fmt::format(
             "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"currentColor\"/>\n",
             kLeft, kWidth - kRight, base, base);
}

}  // namespace

std::string to_svg(const std::vector<BarChart>& charts) {
  double top = 0;
  std::string body;
  for (const BarChart& chart : charts) {
    body += body_of(chart, top);
    top += height_of(chart);
  }
  return svg_file(kWidth, top, body);
}

std::string bar_figure(const BarChart& chart) {
  return svg_figure(kWidth, height_of(chart), body_of(chart, 0));
}

}  // namespace neuronmm::apps
